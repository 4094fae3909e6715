/* Loads plug-ins by itself, one after the other at one place, and has each allocate 10 blocks in each of two threads, which are kept. The
   words are pairs of how it comes there and its file: "over" what is there, "after" that is unmapped, or as a "copy" in memory of no
   file. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 0x4000 };
static char *place;
static char **words;
static int steps;
static pthread_barrier_t loaded, done;

static void load(const char *how, const char *path) {
    int file = open(path, O_RDONLY), fixed = strcmp(how, "after") ? MAP_FIXED : 0;
    if (!fixed)
        munmap(place, ROOM);
    if (!strcmp(how, "copy")) {
        mmap(place, ROOM, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
        read(file, place, ROOM);
    } else if (mmap(place, ROOM, PROT_READ | PROT_EXEC, MAP_PRIVATE | fixed, file, 0) != place) {
        _exit(2);
    }
    close(file);
}

static void *work(void *loads) {
    for (int step = 0; step < steps; step++) {
        if (loads)
            load(words[2 * step], words[2 * step + 1]);
        pthread_barrier_wait(&loaded);
        void *(*leak)(void *(*)(size_t), int) = (void *)(place + ((Elf64_Ehdr *)place)->e_entry);
        for (int i = 0; i < 10; i++)
            leak(malloc, step);
        pthread_barrier_wait(&done);
    }
    return 0;
}

int main(int count, char **all) {
    pthread_t other;
    words = all + 1;
    steps = (count - 1) / 2;
    place = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_barrier_init(&loaded, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    pthread_create(&other, NULL, work, NULL);
    work(place);
    pthread_join(other, NULL);
    puts("done");
    return 0;
}
