/* Reads the pipe that its own trace goes to, but only now and then, in the thread that allocates. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int ends[2];
    if (!getenv("OWN_READER_CHILD")) {
        if (pipe(ends)) return 2;
        dup2(ends[1], 9);
        dup2(ends[0], 8);
        setenv("OWN_READER_CHILD", "1", 1);
        execv("/proc/self/exe", argv); /* the image that is recorded from its start on */
        return 3;
    }
    char bytes[4096];
    long got = 0;
    fcntl(8, F_SETFL, O_NONBLOCK);
    for (long i = 0; i < 60000; i++) free(malloc(100));
    while (read(8, bytes, sizeof bytes) > 0) got++;
    for (long i = 0; i < 1000; i++) free(malloc(100));
    printf("read %d\n", got >= 0);
    return 0;
}
