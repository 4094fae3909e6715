// Calls mtrace() and muntrace() in the way that its first argument names. Blocks that leak have sizes from 1001 on, by which
// a log is known to be whole; others are released.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mcheck.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

static void leak(int size) { kept = malloc(size); }

static void pairs(int count)
{
	for (int i = 0; i < count; i++) {
		void *volatile block = malloc(16 + i % 100);
		free(block);
	}
}

static void sessions(void)
{
	void *before = malloc(5);
	mtrace();
	mtrace(); // does nothing
	leak(1001);
	pairs(300);
	free(before);
	muntrace();
	leak(9999); // nobody looks
	pairs(300);
	mtrace();
	leak(1002);
	muntrace();
	muntrace(); // does nothing
}

static void forms(void)
{
	mtrace();
	char *block = malloc(10);
	block = realloc(block, 5000);
	kept = malloc(1); // so that it has to move
	block = realloc(block, 100000);
	char *text = strdup("text");
	void *volatile none = realloc(block, (size_t)1 << 62);
	void *volatile gone = realloc(text, 0);
	free(kept);
	void *aligned;
	if (none || gone || posix_memalign(&aligned, 64, 1001))
		exit(1);
	free(block);
	free(malloc(0));
	muntrace();
}

// Blocks that other threads release or resize, each through one of a few places.
static void *_Atomic places[16];
static atomic_int is_over;

static void *trader(void *seed)
{
	unsigned at = (unsigned)(size_t)seed;
	for (int i = 0; i < 30000; i++) {
		at = at * 1103515245 + 12345;
		void *mine = i % 3 ? malloc(24) : realloc(atomic_exchange(&places[at >> 16 & 15], NULL), 16 + at % 64);
		free(atomic_exchange(&places[at >> 20 & 15], mine));
	}
	return NULL;
}

static void threads(void)
{
	pthread_t all[4];
	mtrace();
	for (size_t i = 0; i < 4; i++)
		pthread_create(&all[i], NULL, trader, (void *)i);
	for (size_t i = 0; i < 4; i++)
		pthread_join(all[i], NULL);
	for (int i = 0; i < 16; i++)
		free(places[i]);
	leak(1001);
	muntrace();
}

static void *allocator(void *unused)
{
	while (!atomic_load(&is_over))
		pairs(100);
	return unused;
}

// Ends sessions while others allocate.
static void race(void)
{
	pthread_t all[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&all[i], NULL, allocator, NULL);
	for (int i = 0; i < 30; i++) {
		mtrace();
		usleep(1000);
		muntrace();
	}
	atomic_store(&is_over, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(all[i], NULL);
}

static void with_child(void)
{
	mtrace();
	leak(1001);
	void *inherited = malloc(10);
	pid_t child = fork();
	if (child == 0) {
		free(inherited);
		pairs(500);
		leak(1002);
		_exit(0);
	}
	pairs(500);
	free(inherited);
	waitpid(child, NULL, 0);
	leak(1003);
	muntrace();
}

// Forks while others allocate.
static void with_children(void)
{
	pthread_t all[3];
	mtrace();
	for (int i = 0; i < 3; i++)
		pthread_create(&all[i], NULL, allocator, NULL);
	for (int i = 0; i < 60; i++) {
		pid_t child = fork();
		if (child == 0) {
			leak(1002);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	atomic_store(&is_over, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(all[i], NULL);
	leak(1001);
	muntrace();
}

static void with_program(const char *self)
{
	mtrace();
	leak(1001);
	pairs(500);
	if (fork() == 0)
		execl(self, self, "once", NULL);
	wait(NULL);
	pairs(500);
	leak(1003);
	muntrace();
}

// Takes all descriptors away and opens a file of its own.
static void close_all(const char *path)
{
	mtrace();
	leak(1001);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	for (int i = 0; i < 1100; i++)
		if (open(path, O_RDWR | O_CREAT | O_APPEND, 0666) < 0)
			break; // the number that the log had is taken, too
	pairs(500);
	leak(1002);
	if (write(3, "mine\n", 5) != 5)
		exit(1);
	muntrace();
}

// Files may not grow for a while.
static void full(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_FSIZE, &limit);
	struct rlimit small = {8000, limit.rlim_max};
	mtrace();
	setrlimit(RLIMIT_FSIZE, &small);
	pairs(3000);
	setrlimit(RLIMIT_FSIZE, &limit);
	pairs(300);
	leak(1001);
	muntrace();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	const char *path = argc > 2 ? argv[2] : "";
	if (!strcmp(how, "sessions"))
		sessions();
	if (!strcmp(how, "forms"))
		forms();
	if (!strcmp(how, "threads"))
		threads();
	if (!strcmp(how, "race"))
		race();
	if (!strcmp(how, "fork"))
		with_child();
	if (!strcmp(how, "forks"))
		with_children();
	if (!strcmp(how, "exec"))
		with_program(argv[0]);
	if (!strcmp(how, "close"))
		close_all(path);
	if (!strcmp(how, "full"))
		full();
	if (!strcmp(how, "setenv")) {
		setenv("MALLOC_TRACE", path, 1);
		how = "once";
	}
	if (!strcmp(how, "once")) {
		mtrace();
		leak(1002);
		muntrace();
	}
	if (!strcmp(how, "print")) {
		mtrace();
		for (int i = 0; i < 300; i++) {
			pairs(2);
			printf("line %d\n", i);
			fflush(stdout);
		}
		leak(1001);
		muntrace();
	}
	if (!strcmp(how, "abort") || !strcmp(how, "_exit") || !strcmp(how, "return") || !strcmp(how, "kill")) {
		mtrace();
		pairs(500);
		leak(1001);
		if (!strcmp(how, "abort"))
			abort();
		if (!strcmp(how, "_exit"))
			_exit(0);
		if (!strcmp(how, "kill"))
			raise(SIGKILL);
	}
	return 0;
}
