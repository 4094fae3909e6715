/* The child of vfork borrows its parent's heap until it execs. */
//@ ends normal normal
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int status = 0;
    malloc(110); //~ leak 1 x 110
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return 1;
    free(malloc(111));
    malloc(112); //~ leak 1 x 112
    return 0;
}
