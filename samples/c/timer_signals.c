/* A timer interrupts allocations all the time; nothing may be lost or done twice. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void tick(int signal) {
    ticks += signal == SIGALRM;
}

int main(void) {
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, tick);
    if (setitimer(ITIMER_REAL, &often, NULL))
        return 1;
    for (int i = 0; i < 100000 || ticks < 20; i++)
        free(malloc(145));
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 3; i++)
        malloc(146); //~ leak 3 x 146
    return 0;
}
