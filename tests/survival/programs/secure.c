/* Says whether the dynamic linker trusts its environment, and keeps a block. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

static void *volatile kept;
int main(void)
{
    kept = malloc(60001);
    printf("secure %lu\n", getauxval(AT_SECURE));
    return 0;
}
