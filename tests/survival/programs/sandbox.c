/* Gives up all system calls but those that argv[1] names, goes on allocating, and says so. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define LOAD BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ENOUGH(list) { sizeof list / sizeof *list, list }

static struct sock_filter only_write[] = {
    LOAD, ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_exit), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_filter fails[] = {
    LOAD, ALLOW(SYS_write), ALLOW(SYS_exit_group), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
};
static struct sock_filter most[] = {
    LOAD, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ptrace, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
/* One call is its death with one value of one argument, or with all others. */
#define ARGUMENT(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define PASS BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define OF(number) LOAD, BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 1, 0), PASS
static struct sock_filter no_shared[] = {
    OF(SYS_mmap), ARGUMENT(3), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 1), KILL, PASS,
};
static struct sock_filter read_only[] = {
    OF(SYS_openat), ARGUMENT(2), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_RDWR | O_WRONLY, 0, 1), KILL, PASS,
};
static struct sock_filter no_masks[] = {
    OF(SYS_rt_sigprocmask), ARGUMENT(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIG_SETMASK, 0, 1), KILL, PASS,
};
static struct sock_filter few_pieces[] = {
    OF(SYS_writev), ARGUMENT(2), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 2, 0, 1), KILL, PASS,
};
static struct sock_filter four_pieces[] = {
    OF(SYS_writev), ARGUMENT(2), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 4, 1, 0), KILL, PASS,
};
static struct sock_filter own_places[] = {
    OF(SYS_writev), ARGUMENT(1), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xFFFF), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 77, 1, 0), KILL, PASS,
};
static void *volatile kept[2];

static int filter(struct sock_fprog program, int by_call)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 1;
    if (by_call) return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0;
}

#define TRY(name) if (!strcmp(how, #name)) return filter((struct sock_fprog)ENOUGH(name), 0)
static int by_argument(const char *given)
{
    char how[32];
    strncpy(how, given, sizeof how - 1);
    if (strchr(how, '-')) *strchr(how, '-') = '_';
    TRY(no_shared);
    TRY(read_only);
    TRY(no_masks);
    TRY(few_pieces);
    TRY(four_pieces);
    TRY(own_places);
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argv[1];
    struct sock_fprog write_program = ENOUGH(only_write), fail_program = ENOUGH(fails), most_program = ENOUGH(most);
    free(malloc(60000)); /* so that the heap need not grow any more */
    kept[0] = malloc(6001);
    int failed = 0;
    if (!strcmp(how, "strict")) failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    if (!strcmp(how, "write")) failed = filter(write_program, 0);
    if (!strcmp(how, "write-by-call")) failed = filter(write_program, 1);
    if (!strcmp(how, "errno")) failed = filter(fail_program, 0);
    if (!strcmp(how, "most")) failed = filter(most_program, 0);
    failed |= by_argument(how);
    errno = 5;
    for (int i = 0; i < 20000; i++) free(malloc(100 + i % 100));
    kept[1] = malloc(6002);
    const char *said = failed ? "failed\n" : errno != 5 ? "errno changed\n" : "done\n";
    write(1, said, strlen(said));
    if (!strcmp(how, "strict")) syscall(SYS_exit, 6);
    syscall(SYS_exit_group, 6);
}
