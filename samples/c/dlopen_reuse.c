/* Two plugins are mapped one after the other; the second may take the range of the first. */
//@ plugin plugins/first.c
//@ plugin plugins/second.c
//@ flags -ldl
#include <dlfcn.h>
#include <stdlib.h>

static int call(const char *path) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL)
        return 1;
    void (*entry)(void) = (void (*)(void))dlsym(plugin, "entry");
    if (entry == NULL)
        return 2;
    entry();
    return dlclose(plugin);
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 3;
    for (int i = 0; i < 10; i++)
        if (call(argv[1]) || call(argv[2]))
            return 4;
    return 0;
}
