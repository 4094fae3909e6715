/* A plug-in whose name is its own: what it keeps must be found under that name, whatever lies at its place later. */
#include <sched.h>
#include <stdlib.h>

void NAME(void *volatile *kept)
{
    for (int i = 0; i < 20; i++) free(malloc(100));
    *kept = malloc(SIZE);
}

/* Others get far while this one goes. */
__attribute__((destructor)) static void leave(void)
{
    for (int i = 0; i < 20; i++) sched_yield();
}
