/* Signal handlers that jump while the recorder waits for a slow reader: "out" of the handler, or "within" it and back. First argument is
   what the trace goes to, second the file that the reader, which begins late, writes it to, third the jump. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <termios.h>
#include <unistd.h>

enum { JUMPS = 30, PAIRS = 5000 };
static sigjmp_buf back;
static volatile sig_atomic_t armed, jumps, is_within;
static char stack[65536];

static void on_timer(int signal)
{
    (void)signal;
    if (!armed) return;
    jumps++;
    if (is_within) {
        sigjmp_buf here;
        free(malloc(200));
        if (!sigsetjmp(here, 1)) siglongjmp(here, 1);
        free(malloc(200));
        return;
    }
    armed = 0;
    siglongjmp(back, 1);
}

static void *work(void *unused)
{
    for (int i = 0; i < PAIRS; i++) free(malloc(300));
    return unused;
}

static void read_late(int from, const char *name)
{
    char bytes[65536];
    ssize_t got;
    int to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    usleep(1500 * 1000);
    while ((got = read(from, bytes, sizeof bytes)) > 0)
        if (write(to, bytes, got) != got) break;
    _exit(0);
}

int main(int argc, char **argv)
{
    if (!getenv("LEAVE_WAIT_CHILD")) {
        int ends[2];
        if (!strcmp(argv[1], "pipe")) {
            if (pipe(ends)) return 2;
        } else if (!strcmp(argv[1], "socket")) {
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 2;
        } else {
            struct termios raw;
            ends[0] = posix_openpt(O_RDWR | O_NOCTTY);
            if (grantpt(ends[0]) || unlockpt(ends[0])) return 2;
            ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY);
            tcgetattr(ends[1], &raw);
            cfmakeraw(&raw);
            tcsetattr(ends[1], TCSANOW, &raw);
        }
        if (!fork()) {
            close(ends[1]);
            read_late(ends[0], argv[2]);
        }
        close(ends[0]);
        dup2(ends[1], 9);
        close(ends[1]);
        setenv("LEAVE_WAIT_CHILD", "1", 1);
        execv("/proc/self/exe", argv); /* the image that is recorded from its start on */
        return 3;
    }
    is_within = !strcmp(argv[3], "within");
    stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
    sigaltstack(&other, 0);
    struct sigaction action = { .sa_handler = on_timer, .sa_flags = SA_ONSTACK | SA_RESTART };
    struct itimerval often = { { 0, 10000 }, { 0, 10000 } }, never = { { 0, 0 }, { 0, 0 } };
    sigset_t alarm;
    pthread_t threads[3];
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &often, 0);
    sigsetjmp(back, 1);
    while (jumps < JUMPS) {
        armed = 1;
        for (int i = 0; i < 1000 && armed; i++) free(malloc(100));
        armed = 0;
    }
    setitimer(ITIMER_REAL, &never, 0);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    sigprocmask(SIG_BLOCK, &alarm, 0);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, 0);
    work(0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    void *volatile kept = malloc(70001);
    puts("done");
    return !kept;
}
