/* A thousand pairs, what the dispositions of the fatal signals look like, and an end by argv[1]. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void on_fault(int signal_number)
{
    puts("mine");
    fflush(stdout);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

int main(int argc, char **argv)
{
    struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    static char buffer[4096];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    for (int i = 0; i < 1000; i++) free(malloc(10 + i));
    int signals[] = { SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE };
    for (int i = 0; i < 5; i++) {
        struct sigaction old;
        memset(&old, 0xEE, sizeof old);
        sigaction(signals[i], NULL, &old);
        printf("%d %d %d\n", old.sa_handler == SIG_DFL, old.sa_flags, sigismember(&old.sa_mask, SIGINT));
        printf("%d", signal(signals[i], SIG_IGN) == SIG_DFL);
        printf("%d\n", signal(signals[i], SIG_DFL) == SIG_IGN);
    }
    fflush(stdout);
    const char *how = argv[1];
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
    if (!strcmp(how, "raise-segv")) raise(SIGSEGV);
    if (!strcmp(how, "fpe")) raise(SIGFPE);
    if (!strcmp(how, "ill")) __asm__ volatile("ud2");
    if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(how, "term")) raise(SIGTERM);
    if (!strcmp(how, "handler")) {
        signal(SIGSEGV, on_fault);
        *(volatile int *)8 = 1;
    }
    return 1;
}
