/* An allocator that fails once, when it is told to. */
#include <stddef.h>

extern void *__libc_malloc(size_t);
int fail;

void *malloc(size_t size)
{
    if (fail) {
        fail = 0;
        return 0;
    }
    return __libc_malloc(size);
}
