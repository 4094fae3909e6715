/* A busy thread pauses, makes one call more and ends. */
//@ flags -pthread
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static void *work(void *unused) {
    for (int i = 0; i < 1000; i++)
        free(malloc(24));
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    void *volatile block = malloc(25); //~ leak 1 x 25
    (void)block;
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
    return 0;
}
