/* Threads move blocks with realloc: small ones inside their arenas, large ones by mremap. */
//@ flags -pthread
#include <pthread.h>
#include <stdlib.h>

static void *move(void *unused) {
    for (int round = 0; round < 50; round++) {
        char *small = malloc(16), *large = malloc(256 << 10);
        for (size_t size = 32; size < 20000; size *= 2)
            small = realloc(small, size);
        for (size_t size = 512 << 10; size < (16 << 20); size *= 2)
            large = realloc(large, size);
        free(small);
        free(large);
    }
    realloc(malloc(170), 171); //~ leak 4 x 171
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, move, NULL))
            return 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
