/* After a fork both processes release the same inherited address, and each loses a block of its own. */
//@ ends normal normal
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    int status = 0;
    void *shared = malloc(80);
    void *kept = malloc(81); //~ inherited 1 x 81
    pid_t child = fork();
    if (child < 0)
        return 1;
    free(shared);
    if (child == 0) {
        malloc(82); //~ leak 1 x 82
        exit(0);
    }
    free(kept);
    malloc(83); //~ leak 1 x 83
    return waitpid(child, &status, 0) != child || status != 0;
}
