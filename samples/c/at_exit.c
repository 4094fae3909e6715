/* Handlers and destructors that run after main. */
#include <stdlib.h>

static void *kept;

static void handler(void) {
    free(kept);
    malloc(71); //~ leak 1 x 71
}

__attribute__((destructor)) static void late(void) {
    malloc(72); //~ leak 1 x 72
}

__attribute__((constructor)) static void early(void) {
    malloc(73); //~ leak 1 x 73
}

int main(void) {
    kept = malloc(70);
    return atexit(handler);
}
