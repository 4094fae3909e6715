/* 10,000 threads, one after the other: their lanes are taken over, not added up. */
//@ flags -pthread
#include <pthread.h>
#include <stdlib.h>

static void *run(void *unused) {
    free(malloc(165));
    return unused;
}

int main(void) {
    for (int i = 0; i < 10000; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, NULL))
            return 1;
        pthread_join(thread, NULL);
    }
    malloc(166); //~ leak 1 x 166
    return 0;
}
