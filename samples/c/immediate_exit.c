/* No destructor and no handler runs. */
//@ status 7
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    malloc(130); //~ leak 1 x 130
    _exit(7);
}
