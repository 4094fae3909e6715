/* The smallest stack that a thread may have leaves the recorder little room. */
//@ flags -pthread
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *run(void *unused) {
    for (int i = 0; i < 5000; i++)
        free(malloc(185));
    malloc(186); //~ leak 1 x 186
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16384))
        return 1;
    if (pthread_create(&thread, &attributes, run, NULL))
        return 2;
    pthread_join(thread, NULL);
    return 0;
}
