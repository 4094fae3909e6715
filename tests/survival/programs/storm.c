/* Four threads allocate and release as fast as they can. Each says in shared memory how far it has come: what it
   said is done must be in the trace, whenever the process dies. argv[1]: the file that is the shared memory. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { THREADS = 4 };
struct counts {
    _Atomic unsigned long allocated, released, moved;
};
static struct counts *counts;

static void *work(void *argument)
{
    long thread = (long)argument;
    size_t size = 1000 * (thread + 1);
    for (;;) {
        void *block = malloc(size);
        atomic_fetch_add(&counts[thread].allocated, 1);
        block = realloc(block, size + 8);
        atomic_fetch_add(&counts[thread].moved, 1);
        free(block);
        atomic_fetch_add(&counts[thread].released, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int file = open(argv[1], O_RDWR);
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (counts == MAP_FAILED) return 2;
    pthread_t threads[THREADS];
    for (long i = 1; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    work((void *)0);
}
