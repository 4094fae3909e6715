/* Each C function that hands out memory, once kept and once released. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

/* valloc and pvalloc round up to pages on their own; the size is the one asked for. */
int main(void) {
    void *block;
    malloc(101);                             //~ leak 1 x 101
    calloc(3, 34);                           //~ leak 1 x 102
    realloc(NULL, 103);                      //~ leak 1 x 103
    reallocarray(NULL, 4, 26);               //~ leak 1 x 104
    memalign(64, 105);                       //~ leak 1 x 105
    aligned_alloc(32, 128);                  //~ leak 1 x 128
    if (posix_memalign(&block, 256, 107)) //~ leak 1 x 107
        return 1;
    valloc(108);                             //~ leak 1 x 108
    pvalloc(109);                            //~ leak 1 x 109

    free(malloc(201));
    free(calloc(2, 101));
    free(realloc(NULL, 203));
    free(reallocarray(malloc(1), 2, 102));
    free(memalign(64, 205));
    free(aligned_alloc(32, 256));
    if (posix_memalign(&block, 256, 207))
        return 1;
    if ((uintptr_t)block % 256)
        return 2;
    free(block);
    free(valloc(208));
    free(pvalloc(209));
    free(NULL);
    return 0;
}
//@ totals allocations=18 releases=9 reallocations=1 failed=0 live_blocks=9
