/* argv[1] pairs of malloc and free in one thread, two blocks that are never freed, and words on standard output before
   and after. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    long pairs = argc > 1 ? atol(argv[1]) : 1000;
    void *volatile kept = malloc(70001);
    puts("begin");
    fflush(stdout);
    errno = 77;
    for (long i = 0; i < pairs; i++) free(malloc(16 + i % 500));
    int kept_errno = errno;
    kept = malloc(70002);
    sigset_t pending, blocked;
    struct sigaction pipe, size;
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigaction(SIGPIPE, NULL, &pipe);
    sigaction(SIGXFSZ, NULL, &size);
    printf("end %d %d %d %d %d %d\n", kept_errno, sigismember(&pending, SIGPIPE), sigismember(&pending, SIGXFSZ),
           sigismember(&blocked, SIGPIPE), pipe.sa_handler == SIG_DFL, size.sa_handler == SIG_DFL);
    return kept ? 5 : 6;
}
