/* Resizes blocks; a signal handler allocates meanwhile. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static void *volatile kept[3];
static volatile int handled;
static void on_alarm(int signal)
{
    if (handled < 3)
        kept[handled++] = malloc(333);
}

int main(void)
{
    signal(SIGUSR1, on_alarm);
    char *block = realloc(0, 10);
    for (int round = 1; round <= 1000; round++) {
        block = realloc(block, 10 + round);
        if (round % 300 == 0)
            raise(SIGUSR1);
    }
    puts("resized");
    return 0;
}
