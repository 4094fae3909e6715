/* Releases the middle of a live block. */
//@ status 134
//@ ends signal
#include <stdlib.h>

static void release(void *address) {
    free(address); //~ invalid-free
}

int main(void) {
    char *block = calloc(1, 200); //~ leak 1 x 200
    release(block + 32);
    return 0;
}
