/* Forks while other threads allocate; each child allocates on. */
//@ flags -pthread
//@ ends normal normal normal normal normal
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic int stop;

static void *churn(void *unused) {
    while (!stop)
        free(malloc(90)); //~ perhaps inherited 90
    return unused;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, churn, NULL))
            return 1;
    for (int i = 0; i < 4; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            malloc(91); //~ leak 4 x 91
            free(malloc(92));
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 2;
    }
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
