/* Eight threads open and close plug-ins (argv) at once, each of which keeps a block each time. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, ROUNDS = 201 };
static char **plugins;
static void *volatile kept[THREADS][ROUNDS];

static void *work(void *argument)
{
    static const char *names[] = { "leak_one", "leak_two", "leak_three" };
    long thread = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int which = (round + thread) % 3;
        void *plugin = dlopen(plugins[which], RTLD_NOW | RTLD_LOCAL);
        void (*leak)(void *volatile *) = plugin ? dlsym(plugin, names[which]) : 0;
        if (!leak) return (void *)1;
        leak(&kept[thread][round]);
        dlclose(plugin);
    }
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    void *failed = 0, *result;
    plugins = argv + 1;
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        failed = result ? result : failed;
    }
    puts(failed ? "failed" : "done");
    return 0;
}
