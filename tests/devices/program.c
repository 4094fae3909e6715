/* What a device's recorder leaves out: lines of glibc's mtrace, and asking a filter what it lets pass. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mcheck.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

int main(void) {
    mtrace();
    char *block = malloc(1111);
    /* Lets all pass. An emulator refuses it. */
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    for (int i = 0; i < 100000; i++) free(malloc(10));
    puts(block ? "lives on" : "no memory");
    return 0;
}
