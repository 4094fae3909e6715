/* Many blocks of the aligned family: none may be mistaken for another's. */
#include <malloc.h>

int main(void) {
    for (int i = 0; i < 500; i++)
        memalign(128, 72); //~ leak 500 x 72
    for (int i = 0; i < 1000; i++)
        pvalloc(11); //~ leak 1000 x 11
    return 0;
}
//@ totals allocations=1500 releases=0 live_blocks=1500 live_bytes=47000
