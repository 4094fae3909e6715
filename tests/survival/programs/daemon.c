/* Becomes a daemon in the old way: two forks, all descriptors closed, another folder. Its files (in argv[1]) get the numbers that
   have become free, and the parent says whether they hold what it wrote and nothing else. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *volatile early, *volatile late;

int main(int argc, char **argv)
{
    char path[4096], verdict = '?';
    int ends[2];
    early = malloc(60001);
    if (pipe(ends)) return 3;
    if (fork()) {
        close(ends[1]);
        long count = read(ends[0], &verdict, 1);
        printf("daemon said %c\n", count == 1 ? verdict : '?');
        return count != 1;
    }
    setsid();
    if (fork()) _exit(0);
    dup2(ends[1], 0);
    syscall(SYS_close_range, 1u, ~0u, 0u);
    if (chdir("/")) _exit(4);
    int files[9];
    for (int i = 0; i < 9; i++) {
        snprintf(path, sizeof path, "%s/file%d", argv[1], i);
        files[i] = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    }
    for (int i = 0; i < 2000; i++) free(malloc(300));
    late = malloc(60002);
    verdict = write(files[0], "daemon\n", 7) == 7 ? 'y' : 'n';
    for (int i = 0; i < 2000; i++) free(malloc(300));
    struct stat status;
    for (int i = 0; i < 9; i++)
        if (files[i] != i + 1 || fstat(files[i], &status) || status.st_size != (i ? 0 : 7)) verdict = 'n';
    return write(0, &verdict, 1) != 1;
}
