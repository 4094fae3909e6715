/* Destructors of thread-specific data allocate and release when the thread is nearly gone. */
//@ flags -pthread
#include <pthread.h>
#include <stdlib.h>

static pthread_key_t key;

static void destroy(void *value) {
    free(value);
    malloc(65); //~ leak 4 x 65
    free(malloc(66));
}

static void *run(void *unused) {
    pthread_setspecific(key, malloc(64));
    return unused;
}

int main(void) {
    pthread_t threads[4];
    pthread_key_create(&key, destroy);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, run, NULL))
            return 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
