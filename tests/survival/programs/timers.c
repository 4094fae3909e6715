/* A timer interrupts four threads all the time; its handler allocates through the recorder. Below is an allocator that can be
   entered at any instruction. argv[1]: pairs a thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static _Atomic long handled;
static long pairs;
static void on_timer(int signal) { (void)signal; free(malloc(301)); handled++; }
static void *work(void *argument)
{
    for (long i = 0; i < pairs; i++) free(malloc(100));
    return argument;
}
int main(int argc, char **argv)
{
    pairs = argc > 1 ? atol(argv[1]) : 100000;
    struct sigaction action = { .sa_handler = on_timer };
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("handled %ld\n", handled);
    return 0;
}
