/* A handler jumps out of getline while it waits; what the libc allocates later, deeper in the stack, is not getline's. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf out;
static void on_alarm(int number) { siglongjmp(out, 1); }

static FILE *deeper(int depth)
{
    volatile char room[500];
    room[0] = 1;
    return depth ? deeper(depth - 1) : fopen("/dev/null", "r"); /* fopen */
}

int main(void)
{
    int ends[2];
    char *line = 0;
    size_t size = 0;
    if (pipe(ends)) return 1;
    FILE *input = fdopen(ends[0], "r");
    setvbuf(input, 0, _IONBF, 0);
    signal(SIGALRM, on_alarm);
    struct itimerval soon = { .it_value.tv_usec = 20000 };
    if (!sigsetjmp(out, 1)) {
        setitimer(ITIMER_REAL, &soon, 0);
        getline(&line, &size, input); /* getline */
        return 2;
    }
    puts(deeper(5) ? "done" : "failed");
    return 0;
}
