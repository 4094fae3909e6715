/* A thread whose first call is made in the child of its vfork; then it and another thread allocate in turn. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *other(void *unused)
{
    for (int i = 0; i < 100; i++) malloc(888);
    return unused;
}

static void *first(void *tid)
{
    pthread_t thread;
    int status;
    *(long *)tid = syscall(SYS_gettid);
    pid_t child = vfork();
    if (child == 0) {
        free(malloc(99));
        _exit(0);
    }
    waitpid(child, &status, 0);
    for (int i = 0; i < 50; i++) malloc(777);
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    for (int i = 0; i < 50; i++) malloc(777);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    long tid;
    pthread_create(&thread, NULL, first, &tid);
    pthread_join(thread, NULL);
    printf("%ld\n", tid);
    return 0;
}
