/* Makes children in every way; each keeps a block of a size of its own. With an argument it is one of those that are executed. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static void *volatile kept, *volatile inherited;

static int keep(int size, int status)
{
    for (int i = 0; i < 500; i++) free(malloc(size % 1000 + i));
    kept = malloc(size);
    return status;
}
static int wait_for(int child)
{
    int status;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    if (argc > 1) return keep(60000 + atoi(argv[1]), atoi(argv[1]));
    char command[4096], *two[] = { argv[0], "2", 0 }, *three[] = { argv[0], "3", 0 };
    int seen = 0, child;
    inherited = malloc(61000);
    if (!(child = fork())) exit(keep(60001, 1));
    seen = wait_for(child);
    if (!(child = vfork())) { execv(argv[0], two); _exit(99); }
    seen = seen * 10 + wait_for(child);
    if (posix_spawn(&child, argv[0], 0, 0, three, environ)) return 1;
    seen = seen * 10 + wait_for(child);
    snprintf(command, sizeof command, "exec %s 4", argv[0]);
    seen = seen * 10 + WEXITSTATUS(system(command));
    if (!(child = fork())) { free(inherited); execl(argv[0], argv[0], "5", (char *)0); }
    seen = seen * 10 + wait_for(child);
    printf("%d\n", seen);
    keep(60006, 0);
    return 0;
}
