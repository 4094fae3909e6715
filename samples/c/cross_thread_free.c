/* Blocks are handed out by one thread and released by another, which gets the same addresses again. */
//@ flags -pthread
#include <pthread.h>
#include <stdlib.h>

#define ROUNDS 20000

static void *_Atomic slot;

static void *releases(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        void *block;
        while ((block = __atomic_exchange_n(&slot, NULL, __ATOMIC_ACQ_REL)) == NULL)
            ;
        free(block);
        free(malloc(56));
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, releases, NULL))
        return 1;
    for (int i = 0; i < ROUNDS; i++) {
        void *block = malloc(56), *none = NULL;
        while (!__atomic_compare_exchange_n(&slot, &none, block, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            none = NULL;
    }
    pthread_join(thread, NULL);
    malloc(57); //~ leak 1 x 57
    return 0;
}
