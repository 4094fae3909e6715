/* Steps through hooks one machine instruction at a time, and now and then lets a signal handler allocate between two of them. argv[1]:
   instructions from one handler to the next on average; argv[2]: rounds. The places are drawn by chance: a handler at a fixed
   distance could come between the same two instructions of a retry for ever. The process below the tracer is recorded. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long handled;

static void on_signal(int signal)
{
    (void)signal;
    free(malloc(301));
    handled++;
}

static int traced(long rounds)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigaction(SIGUSR1, &action, NULL);
    free(malloc(1));
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    for (long i = 0; i < rounds; i++) {
        void *block = malloc(100);
        block = realloc(block, 200);
        free(block);
        block = calloc(10, 11);
        free(block);
    }
    raise(SIGSTOP);
    printf("handled %ld\n", handled);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    long every = atol(argv[1]), rounds = atol(argv[2]), steps = 0;
    int status, stops = 0, was_in_handler = 0;
    pid_t pid = fork();
    if (pid == 0) exit(traced(rounds));
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        int signal = 0;
        if (WSTOPSIG(status) == SIGSTOP) stops++;
        else if (WSTOPSIG(status) != SIGTRAP) signal = WSTOPSIG(status);
        else {
            unsigned long blocked = 0;
            ptrace(PTRACE_GETSIGMASK, pid, sizeof blocked, &blocked);
            int in_handler = blocked >> (SIGUSR1 - 1) & 1;
            /* The stop after the handler's return is still before the instruction that it came before. */
            if (!in_handler && !was_in_handler) {
                steps = steps * 6364136223846793005ul + 1442695040888963407ul;
                if ((unsigned long)steps >> 33 < (1ul << 31) / every) signal = SIGUSR1;
            }
            was_in_handler = in_handler;
        }
        if (ptrace(stops == 1 ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, NULL, signal)) return 3;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}
