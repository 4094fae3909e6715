/* Releases a block twice, it seems: in between its address was handed out again, past the recorder. A block at an address of its
   own tells that there are such blocks. */
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t);

int main(int count, char **arguments)
{
    size_t size = atoi(arguments[1]);
    void *seen = malloc(size);
    free(seen);
    void *unseen = __libc_malloc(size);
    free(__libc_malloc(3 * size));
    free(unseen);
    free(malloc(size));
    printf("%d\n", unseen == seen);
    return 0;
}
