/* A busy thread pauses: of the calls after it nobody knows the time, but that they are not before the last reading of the clock. */
//@ status 134
//@ ends signal
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(void) {
    for (int i = 0; i < 1000; i++)
        free(malloc(24));
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    char *block = malloc(25); //~ leak 1 x 25
    memset(block, 0, 25); // else whatever lies there is taken for the size of a block
    free(block + 8); //~ invalid-free
    return 0;
}
