/* The six forms of realloc: from NULL, grow, move, shrink, fail, to 0. */
#include <stdint.h>
#include <stdlib.h>

int main(void) {
    volatile size_t too_much = SIZE_MAX / 2;
    char *block = realloc(NULL, 40);
    block = realloc(block, 56);
    char *barrier = malloc(16); //~ leak 1 x 16
    block = realloc(block, 4096); /* cannot stay below the barrier */
    block = realloc(block, 24);
    if (realloc(block, too_much) != NULL)
        return 1;
    block[23] = barrier != NULL; /* a failed realloc leaves the block as it was */
    if (realloc(block, 0) != NULL)
        return 2;
    char *kept = malloc(10);
    kept = realloc(kept, 77); //~ leak 1 x 77
    char *failed = malloc(88); //~ leak 1 x 88
    if (realloc(failed, too_much) != NULL)
        return 3;
    return 0;
}
//@ totals allocations=4 releases=1 reallocations=4 failed=2 failed_reallocations=2 live_blocks=3 live_bytes=181
