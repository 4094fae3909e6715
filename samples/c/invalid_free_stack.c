/* Releases an array on the stack. */
//@ status 134
//@ ends signal
#include <stdlib.h>

static void release(void *address) {
    free(address); //~ invalid-free
}

int main(void) {
    _Alignas(16) char array[64] = {0};
    release(array + 16);
    return 0;
}
