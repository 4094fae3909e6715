/* A handler leaves an interrupted hook by longjmp, again and again: each time a slot may stay unfilled. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile sig_atomic_t armed, jumps;
static void on_timer(int signal) { (void)signal; if (armed) { armed = 0; jumps++; siglongjmp(back, 1); } }
int main(void)
{
    struct sigaction action = { .sa_handler = on_timer };
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &often, NULL);
    sigsetjmp(back, 1);
    while (jumps < 2000) {
        armed = 1;
        for (int i = 0; i < 10000 && armed; i++) free(malloc(100));
        armed = 0;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (long i = 0; i < 30000; i++) free(malloc(555));
    void *volatile kept = malloc(70001);
    printf("done\n");
    return !kept;
}
