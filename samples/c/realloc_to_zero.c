/* realloc(p, 0) is a release, a thousand times over. */
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 1000; i++)
        if (realloc(malloc(33), 0) != NULL)
            return 1;
    return 0;
}
//@ totals allocations=1000 releases=1000 reallocations=0 failed=0 live_blocks=0
