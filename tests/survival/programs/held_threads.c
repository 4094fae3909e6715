/* As many threads as argv[1] says: each makes a call before the next one begins, and another when all are there. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

static sem_t called, all;

static void *work(void *unused) {
    free(malloc(100));
    sem_post(&called);
    sem_wait(&all);
    free(malloc(200));
    sem_post(&all);
    return unused;
}

int main(int count, char **words) {
    int many = atoi(words[1]);
    pthread_t *threads = malloc(many * sizeof *threads);
    for (int i = 0; i < many; i++) {
        if (pthread_create(&threads[i], NULL, work, NULL))
            return 2;
        sem_wait(&called);
    }
    sem_post(&all);
    for (int i = 0; i < many; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    puts("ok");
    return 0;
}
