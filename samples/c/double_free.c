/* glibc notices the second release and aborts; the record must be out before. */
//@ status 134
//@ ends signal
#include <stdlib.h>

int main(void) {
    char *block = malloc(24);
    free(block);
    free(block); //~ double-free
    return 0;
}
