/* Says how many descriptors it can have beside those that it was started with: before, between and after its calls, and while it
   allocates with none left. HOW is where that happens: here, in a forked child, or in a program image with a limit of its own. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void pairs(void) {
    for (int i = 0; i < 5000; i++)
        free(malloc(16 + i % 64));
}

static void *thread(void *unused) {
    pairs();
    return unused;
}

static void count(int allocates) {
    int all[64], many = 0, ends[2];
    while (many < 64 && (all[many] = open("/dev/null", O_RDONLY)) >= 0)
        many++;
    if (allocates)
        pairs();
    int copies = dup(0) >= 0;
    for (int i = 0; i < many; i++)
        close(all[i]);
    int joined = many >= 2 && pipe(ends) == 0;
    if (joined) {
        close(ends[0]);
        close(ends[1]);
    }
    printf("%d %d %d\n", many, copies, joined);
}

static int work(void) {
    pthread_t other;
    count(0);
    pairs();
    count(0);
    count(1);
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    count(0);
    if (malloc(60001))
        count(0);
    return 0;
}

static void limit(const char *most) {
    struct rlimit to = {atoi(most), atoi(most)};
    setrlimit(RLIMIT_NOFILE, &to);
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "here";
    if (!strcmp(how, "here"))
        return work();
    pairs();
    limit(words[2]);
    if (!strcmp(how, "exec")) {
        execl(words[0], words[0], "here", NULL);
        return 1;
    }
    if (!strcmp(how, "after"))
        return work();
    for (int fd = 3; fd < 2048 && !strcmp(how, "closed"); fd++)
        close(fd);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        return work();
    waitpid(child, NULL, 0);
    return 0;
}
