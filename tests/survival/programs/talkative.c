/* Talks while it allocates: words without an end of line, and others. Blocks of two call sites stay, one is released twice. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CACHED 7 /* blocks of a size that a thread's cache takes before the bin gets any */

static void *kept[40];
static char words[BUFSIZ];

static void release_twice(void)
{
    void *cached[CACHED], *twice, *between;
    for (int i = 0; i < CACHED; i++) cached[i] = malloc(24);
    twice = malloc(24);
    between = malloc(24);
    for (int i = 0; i < CACHED; i++) free(cached[i]);
    free(twice);
    free(between);
    free(twice); /* glibc does not notice, but nothing may allocate any more */
}

int main(void)
{
    setvbuf(stdout, words, _IOLBF, sizeof words);
    for (int round = 0; round < 40; round++) {
        printf("round %d ~ ", round);
        fflush(stdout);
        for (int i = 0; i < 50; i++) {
            char *block = malloc(16 + i * 7 % 300);
            block = realloc(block, 40 + i);
            free(block);
        }
        if (round % 2) kept[round] = malloc(100);
        else kept[round] = malloc(200);
        if (round % 3 == 0) puts("~home is done");
    }
    puts("over");
    release_twice();
    _exit(5);
}
