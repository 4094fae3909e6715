/* argv[1] threads one after the other or argv[2] at a time; each allocates a little and one block in a hundred is kept. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *work(void *argument)
{
    for (int i = 0; i < 20; i++) free(malloc(100 + i));
    return malloc(7001);
}
int main(int argc, char **argv)
{
    int total = atoi(argv[1]), at_once = atoi(argv[2]);
    pthread_t threads[512];
    for (int done = 0; done < total; done += at_once) {
        for (int i = 0; i < at_once; i++) if (pthread_create(&threads[i], NULL, work, NULL)) return 2;
        for (int i = 0; i < at_once; i++) {
            void *block;
            pthread_join(threads[i], &block);
            if ((done + i) % 100) free(block);
        }
    }
    puts("ok");
    return 0;
}
