/* Keeps three blocks, one of them in another thread, and ends in the way that argv[1] names. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *volatile kept[3], *volatile late;
static volatile int is_busy;

static void *keep(void *argument)
{
    kept[2] = malloc(60003);
    return argument;
}
static void *be_busy(void *argument)
{
    for (;;) {
        void *volatile block = malloc(500);
        free(block);
        is_busy = 1;
    }
    return argument;
}
static void in_handler(void) { free(late); }
static void on_signal(int number) { _exit(40 + number); }
__attribute__((destructor)) static void in_destructor(void) { free(malloc(700)); }

int main(int argc, char **argv)
{
    const char *how = argv[1];
    struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    pthread_t thread;
    kept[0] = malloc(60001);
    kept[1] = calloc(1, 60002);
    pthread_create(&thread, NULL, keep, NULL);
    pthread_join(thread, NULL);
    late = malloc(60004);
    atexit(in_handler);
    at_quick_exit(in_handler);
    if (!strcmp(how, "return")) return 3;
    if (!strcmp(how, "exit")) exit(4);
    if (!strcmp(how, "thread-exit")) pthread_exit(NULL);
    if (!strcmp(how, "quick_exit")) quick_exit(5);
    if (!strcmp(how, "busy")) {
        for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, be_busy, NULL);
        while (!is_busy) usleep(100);
        usleep(2000);
        return 6;
    }
    free(late);
    if (!strcmp(how, "_exit")) _exit(7);
    if (!strcmp(how, "_Exit")) _Exit(8);
    if (!strcmp(how, "exit_group")) syscall(SYS_exit_group, 9);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "kill")) raise(SIGKILL);
    if (!strcmp(how, "term")) raise(SIGTERM);
    if (!strcmp(how, "hup")) raise(SIGHUP);
    if (!strcmp(how, "alarm")) { alarm(1); pause(); }
    if (!strcmp(how, "pipe")) raise(SIGPIPE);
    if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
    if (!strcmp(how, "bus")) raise(SIGBUS);
    if (!strcmp(how, "fpe")) { volatile int zero = 0; return argc / zero; }
    if (!strcmp(how, "trap")) __asm__ volatile("int3");
    if (!strcmp(how, "overflow")) { char *volatile deep = alloca(64 << 20); *deep = 1; }
    if (!strcmp(how, "handled")) { signal(SIGTERM, on_signal); raise(SIGTERM); }
    if (!strcmp(how, "exec")) execl("/bin/sh", "sh", "-c", "exit 10", (char *)NULL);
    if (!strcmp(how, "double")) { void *block = malloc(60005); free(block); free(block); }
    return 99;
}
