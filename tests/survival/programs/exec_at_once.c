/* A child that becomes another program before it calls anything of the allocator. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    void *block = malloc(30);
    if (fork() == 0) {
        execl("/bin/true", "true", (char *)0);
        _exit(9);
    }
    wait(0);
    free(block);
    return 0;
}
