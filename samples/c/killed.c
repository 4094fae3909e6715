/* Ends by a signal that nothing in the process can see. */
//@ status 137
//@ ends signal
#include <signal.h>
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 5000; i++)
        free(malloc(136));
    malloc(137); //~ leak 1 x 137
    raise(SIGKILL);
    return 0;
}
