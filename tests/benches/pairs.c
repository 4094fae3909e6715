/* pairs THREADS PAIRS [mtrace]: each thread allocates and releases; prints CPU nanoseconds per pair. */
#include <mcheck.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long pairs;

static void *run(void *unused) {
    void *held[16] = {0};
    for (long i = 0; i < pairs; i++) {
        free(held[i % 16]);
        held[i % 16] = malloc(16 + (size_t)(i % 13) * 24);
    }
    for (int i = 0; i < 16; i++)
        free(held[i]);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    struct timespec begin, end;
    int count = argc > 2 ? atoi(argv[1]) : 0;
    if (count < 1 || count > 64)
        return 2;
    pairs = atol(argv[2]);
    if (argc > 3 && strcmp(argv[3], "mtrace") == 0)
        mtrace();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (int i = 1; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, NULL))
            return 1;
    run(NULL);
    for (int i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    printf("%.2f\n", ns / ((double)pairs * count));
    return 0;
}
