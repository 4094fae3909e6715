/* Allocates before any constructor has run, and after the last destructor of its own. */
#include <stdio.h>
#include <stdlib.h>

int use(int number);
static void *volatile before, *volatile late;
static void preinit(int argc, char **argv, char **environment)
{
    before = malloc(72001);
    free(malloc(72002));
}
__attribute__((section(".preinit_array"), used)) static void (*entry)(int, char **, char **) = preinit;
__attribute__((destructor(101))) static void last(void) { late = malloc(72003); free(malloc(72004)); }
int main(void)
{
    printf("%d\n", use(41));
    return 0;
}
