/* Every allocating call of C, one block of each kept. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept[8];
static void *work(void *argument)
{
    for (int i = 0; i < 1000; i++) free(realloc(malloc(10 + i), 20 + i));
    return argument;
}
int main(void)
{
    void *aligned = 0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    kept[0] = malloc(50001);
    kept[1] = calloc(2, 25001);
    kept[2] = realloc(malloc(1), 50003);
    kept[3] = posix_memalign(&aligned, 64, 50004) ? 0 : aligned;
    kept[4] = aligned_alloc(64, 64 * 800);
    kept[5] = strdup("kept");
    free(kept[0]);
    kept[0] = malloc(50005);
    printf("done %d\n", kept[0] && kept[1] && kept[2] && kept[3] && kept[4] && kept[5]);
    return 0;
}
