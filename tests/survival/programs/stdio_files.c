/* Closes the standard descriptors, so that files of its own (in folder argv[1]) get their numbers; allocates and writes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void *volatile kept[2];

int main(int argc, char **argv)
{
    char path[4096], text[100] = { 0 };
    kept[0] = malloc(60001);
    for (int fd = 0; fd < 3; fd++) close(fd);
    for (int fd = 0; fd < 3; fd++) {
        snprintf(path, sizeof path, "%s/data%d", argv[1], fd);
        if (open(path, O_RDWR | O_CREAT | O_TRUNC, 0600) != fd) return 4;
    }
    for (int i = 0; i < 3000; i++) {
        free(malloc(100 + i));
        if (i % 300 == 0)
            for (int fd = 0; fd < 3; fd++)
                if (write(fd, text, sizeof text) != sizeof text) return 5;
    }
    kept[1] = malloc(60002);
    struct stat status;
    for (int fd = 0; fd < 3; fd++)
        if (fstat(fd, &status) || status.st_size != 1000) return 6;
    return 0;
}
