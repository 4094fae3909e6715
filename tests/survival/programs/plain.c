/* Leaks a block: nothing to be said of it where nothing is recorded. */
#include <stdio.h>
#include <stdlib.h>

static void *volatile kept;
int main(void)
{
    kept = malloc(50001);
    puts("plain");
    return 0;
}
