/* Releases a static object, which no allocator ever handed out. */
//@ status 134
//@ ends signal
#include <stdlib.h>

static _Alignas(16) char object[64];

static void release(void *address) {
    free(address); //~ invalid-free
}

int main(void) {
    release(object + 16);
    return 0;
}
