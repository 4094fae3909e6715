/* Only the handlers of at_quick_exit run. */
//@ status 8
#include <stdlib.h>

static void handler(void) {
    malloc(131); //~ leak 1 x 131
}

int main(void) {
    at_quick_exit(handler);
    malloc(132); //~ leak 1 x 132
    quick_exit(8);
}
