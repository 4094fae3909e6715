// Leaves one descriptor free and opens it again and again, while other threads allocate.

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_int is_over;

static void *allocate(void *unused) {
    (void)unused;
    while (!is_over) {
        for (int i = 0; i < 1000; i++) {
            free(malloc(100));
        }
    }
    return NULL;
}

int main(void) {
    enum { TURNS = 20000 };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, allocate, NULL);
    }
    int last = -1;
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
        last = fd;
    }
    close(last);
    int failed = 0, elsewhere = 0;
    for (int i = 0; i < TURNS; i++) {
        int fd = open("/dev/null", O_RDONLY);
        failed += fd < 0;
        elsewhere += fd >= 0 && fd != last;
        close(fd);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%d failed, %d elsewhere\n", failed, elsewhere);
    return 0;
}
