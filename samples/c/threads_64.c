/* 64 threads at once, more than there are large lanes. */
//@ flags -pthread
#include <pthread.h>
#include <stdlib.h>

#define THREADS 64

static pthread_barrier_t all;

static void *run(void *unused) {
    pthread_barrier_wait(&all);
    for (int i = 0; i < 500; i++)
        free(malloc(160));
    malloc(161); //~ leak 64 x 161
    pthread_barrier_wait(&all);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, run, NULL))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
