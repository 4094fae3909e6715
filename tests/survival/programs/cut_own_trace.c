/* Cuts its own trace (argv[1]) while it goes on allocating in two threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *work(void *argument)
{
    for (int i = 0; i < 200000; i++) free(malloc(64));
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    work(NULL);
    pthread_create(&thread, NULL, work, NULL);
    usleep(1000);
    truncate(argv[1], 0);
    /* The pages under the lanes are gone. */
    work(NULL);
    pthread_join(thread, NULL);
    puts("still here");
    return 0;
}
