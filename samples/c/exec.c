/* The image replaces itself: what it held is gone with it, and the next image is a trace of its own. */
//@ ends exec normal
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc > 1) {
        malloc(95); //~ leak 1 x 95
        return 0;
    }
    malloc(96); //~ leak 1 x 96
    execl("/nonexistent/program", "program", (char *)NULL);
    malloc(97); //~ leak 1 x 97
    execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    return 1;
}
