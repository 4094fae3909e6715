/* Defines one function of the allocator itself, which does not go on to the next one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void __libc_free(void *);
extern void *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

#ifdef OWN_free
void free(void *block) { __libc_free(block); }
#endif
#ifdef OWN_calloc
void *calloc(size_t count, size_t each) { return __libc_calloc(count, each); }
#endif
#ifdef OWN_realloc
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
#endif
#ifdef OWN_posix_memalign
int posix_memalign(void **place, size_t alignment, size_t size) { return (*place = __libc_memalign(alignment, size)) == 0; }
#endif

int main(void)
{
    void *aligned = 0;
    free(malloc(10));
    free(calloc(10, 10));
    free(realloc(malloc(5), 50));
    if (posix_memalign(&aligned, 64, 100)) return 1;
    free(aligned);
    puts("done");
    return 0;
}
