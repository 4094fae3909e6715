/* A double free that glibc does not notice: the block is not the newest one of its bin. */
#include <stdlib.h>
#include <unistd.h>

#define CACHED 7 /* blocks of a size that a thread's cache takes before the bin gets any */

int main(void) {
    void *cached[CACHED], *twice, *between;
    for (int i = 0; i < CACHED; i++)
        cached[i] = malloc(24);
    twice = malloc(24);
    between = malloc(24);
    for (int i = 0; i < CACHED; i++)
        free(cached[i]);
    free(twice);
    free(between);
    free(twice); //~ double-free
    _exit(0);    /* the bin is a ring now: nothing may allocate any more */
}
