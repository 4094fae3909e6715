/* Ends by its own signal. */
//@ status 134
//@ ends signal
#include <stdlib.h>

int main(void) {
    malloc(135); //~ leak 1 x 135
    abort();
}
