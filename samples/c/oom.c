/* Requests that no allocator can serve: counted as failed, never as a block. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

int main(void) {
    volatile size_t too_much = SIZE_MAX / 2;
    void *block = NULL;
    errno = 0;
    if (malloc(too_much) != NULL || errno != ENOMEM)
        return 1;
    if (calloc(too_much, 4) != NULL)
        return 2;
    if (memalign(64, too_much) != NULL)
        return 3;
    if (posix_memalign(&block, 64, too_much) != ENOMEM)
        return 4;
    if (realloc(NULL, too_much) != NULL)
        return 5;
    free(malloc(180));
    return 0;
}
//@ totals allocations=1 releases=1 failed=5 failed_reallocations=0 live_blocks=0
