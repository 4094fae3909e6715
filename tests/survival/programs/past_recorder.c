/* Gets blocks past the recorder, in the way that its argument names, and releases them through it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t);
static void *(*get)(size_t);

int main(int count, char **arguments)
{
    const char *way = arguments[1];
    if (!strcmp(way, "libc"))
        get = __libc_malloc;
    else if (!strcmp(way, "handle"))
        get = dlsym(dlopen("libc.so.6", RTLD_LAZY), "malloc");
    else if (!strcmp(way, "plugin"))
        get = dlsym(dlopen(arguments[2], RTLD_NOW | RTLD_DEEPBIND), "plugin_get");
    else
        get = malloc;
    /* The address of a block that was seen comes again unseen: its second release looks like a double free. */
    void *seen = malloc(1000);
    free(seen);
    void *unseen = get(1000);
    free(unseen);
    /* And one whose address nothing is known of. */
    void *stranger = get(40000);
    stranger = realloc(stranger, 50000);
    free(stranger);
    free(get(60000));
    printf("%d\n", unseen == seen);
    return 0;
}
