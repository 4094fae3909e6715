/* Threads share one arena, without caches of their own: what one releases, another is given at once. */
//@ flags -pthread
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#define ROUNDS 100000
#define SIZE 2000 /* more than a thread's cache takes */

static void *_Atomic slot;

static void *run(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        void *mine = malloc(SIZE);
        void *other = __atomic_exchange_n(&slot, mine, __ATOMIC_ACQ_REL);
        free(other); /* handed out by this thread or by another one */
    }
    return unused;
}

int main(void) {
    pthread_t threads[3];
    mallopt(M_ARENA_MAX, 1);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, run, NULL))
            return 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    free(slot);
    malloc(57); //~ leak 1 x 57
    return 0;
}
