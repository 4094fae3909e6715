/* A block of no bytes has an address and can be lost. */
#include <stdlib.h>

int main(void) {
    malloc(0);    //~ leak 1 x 0
    calloc(0, 8); //~ leak 1 x 0
    free(malloc(0));
    return 0;
}
//@ totals allocations=3 releases=1 live_blocks=2 live_bytes=0
