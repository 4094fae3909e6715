/* The first plugin of dlopen_reuse.c. */
#include <stdlib.h>

void entry(void) {
    malloc(121); //~ leak 10 x 121
    free(malloc(122));
}
