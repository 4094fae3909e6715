/* A handler allocates, and another one leaves by longjmp. */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

static sigjmp_buf out;

static void allocates(int signal) {
    malloc((size_t)signal + 140); //~ leak 1 x 150
    free(malloc(141));
}

static void leaves(int signal) {
    malloc((size_t)signal + 140); //~ leak 1 x 152
    siglongjmp(out, 1);
}

int main(void) {
    signal(SIGUSR1, allocates);
    signal(SIGUSR2, leaves);
    raise(SIGUSR1);
    if (sigsetjmp(out, 1) == 0)
        raise(SIGUSR2);
    free(malloc(142));
    malloc(143); //~ leak 1 x 143
    return 0;
}
