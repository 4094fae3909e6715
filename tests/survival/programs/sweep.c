/* Takes every descriptor away in one of several ways (argv[1]), opens files of its own (in folder argv[2]), allocates, and says
   whether its files hold what it wrote and nothing else. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES = 40 };
static int files[FILES];

int main(int argc, char **argv)
{
    const char *how = argv[1];
    char path[4096];
    void *volatile kept = malloc(70001);
    for (int i = 0; i < 3000; i++) free(malloc(100));
    if (!strcmp(how, "close")) for (int fd = 3; fd < 5000; fd++) close(fd);
    if (!strcmp(how, "close_range")) syscall(SYS_close_range, 3u, ~0u, 0u);
    if (!strcmp(how, "dup2")) {
        snprintf(path, sizeof path, "%s/all", argv[2]);
        int all = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int fd = 3; fd < 4000; fd++) if (fd != all) dup2(all, fd);
    }
    if (!strcmp(how, "chroot")) {
        if (chroot(argv[2]) || chdir("/")) return 3;
        argv[2] = "";
        syscall(SYS_close_range, 3u, ~0u, 0u);
    }
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/file%d", argv[2], i);
        files[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    }
    for (int i = 0; i < 5000; i++) {
        free(malloc(200));
        if (i % 100 == 0) for (int k = 0; k < FILES; k++) if (write(files[k], "mine\n", 5) != 5) return 2;
    }
    kept = malloc(70002);
    for (int k = 0; k < FILES; k++) {
        struct stat status;
        if (fstat(files[k], &status) || status.st_size != 250) { printf("file %d has %ld bytes\n", k, (long)status.st_size); return 4; }
    }
    puts("clean");
    return 0;
}
