/* A C program that opens plug-ins written in C++. Its arguments are steps, one after the other:
   +FILE opens, *FILE opens for all that come later, FILE uses what is open, -FILE closes, @FILE opens, uses and closes it
   again and again while four threads use all that is open. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, ROUNDS = 60 };
static struct { const char *name; void *handle; const char *(*use)(void); } open_ones[MOST];
static volatile int stop;

static const char *base(const char *path) { return strrchr(path, '/') + 1; }

static int find(const char *name)
{
    for (int i = 0; i < MOST; i++)
        if (open_ones[i].name && !strcmp(open_ones[i].name, name)) return i;
    return -1;
}

static int open_one(const char *name, int flags)
{
    int at = 0;
    while (open_ones[at].name) at++;
    void *handle = dlopen(name, flags);
    if (!handle) {
        puts(dlerror());
        exit(1);
    }
    *(void **)&open_ones[at].use = dlsym(handle, "use");
    open_ones[at].handle = handle;
    open_ones[at].name = name;
    return at;
}

static void close_one(int at)
{
    open_ones[at].name = 0;
    dlclose(open_ones[at].handle);
}

static void *work(void *first)
{
    while (!stop)
        for (int i = 0; i < MOST; i++)
            if (open_ones[i].name && i < (long)first) open_ones[i].use();
    return 0;
}

static void storm(const char *name)
{
    pthread_t threads[4];
    long count = 0;
    while (open_ones[count].name) count++;
    stop = 0;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)count);
    for (int i = 0; i < ROUNDS; i++) {
        int at = open_one(name, RTLD_NOW | RTLD_LOCAL);
        const char *said = open_ones[at].use();
        if (i + 1 == ROUNDS) printf("@%s: %s\n", base(name), said);
        close_one(at);
    }
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
}

int main(int argc, char **argv)
{
    setbuf(stdout, 0);
    for (int i = 1; i < argc; i++) {
        char *step = argv[i];
        if (*step == '+') open_one(step + 1, RTLD_NOW | RTLD_LOCAL);
        else if (*step == '*') open_one(step + 1, RTLD_NOW | RTLD_GLOBAL);
        else if (*step == '-') close_one(find(step + 1));
        else if (*step == '@') storm(step + 1);
        else printf("%s: %s\n", base(step), open_ones[find(step)].use());
    }
    return 0;
}
