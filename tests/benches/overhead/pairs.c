/* pairs THREADS PAIRS [mtrace | counter | write FILE]: each thread allocates and releases; prints CPU nanoseconds per pair.
   counter: and adds to a counter that all threads share, twice a pair.
   write: and writes 80 bytes a pair to FILE, in blocks. */
#include <fcntl.h>
#include <mcheck.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 32768

static long pairs;
static int counts, file = -1;
static _Alignas(128) atomic_long shared;
static _Thread_local long last;

static void *run(void *unused) {
    void *held[16] = {0};
    static _Thread_local char block[BLOCK];
    size_t filled = 0;
    for (long i = 0; i < pairs; i++) {
        if (counts)
            last = atomic_fetch_add_explicit(&shared, 1, memory_order_relaxed);
        free(held[i % 16]);
        held[i % 16] = malloc(16 + (size_t)(i % 13) * 24);
        if (counts)
            last = atomic_fetch_add_explicit(&shared, 1, memory_order_relaxed);
        if (file >= 0 && (filled += 80) >= BLOCK) {
            filled = 0;
            if (write(file, block, BLOCK) != BLOCK)
                abort();
        }
    }
    for (int i = 0; i < 16; i++)
        free(held[i]);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    struct timespec begin, end;
    int count = argc > 2 ? atoi(argv[1]) : 0;
    const char *mode = argc > 3 ? argv[3] : "";
    if (count < 1 || count > 64)
        return 2;
    pairs = atol(argv[2]);
    if (strcmp(mode, "mtrace") == 0)
        mtrace();
    counts = strcmp(mode, "counter") == 0;
    if (strcmp(mode, "write") == 0 && argc > 4)
        file = open(argv[4], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
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
