/* Allocates in every usual way, in four threads, and keeps one block of each: what must be found whichever allocator is below. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <vector>

static void *volatile kept[16];

static void *work(void *)
{
    std::vector<std::string> words;
    for (int round = 0; round < 2000; round++) {
        words.emplace_back(100 + round % 50, 'x');
        if (words.size() > 100)
            words.erase(words.begin(), words.begin() + 50);
        char *block = static_cast<char *>(malloc(10 + round));
        block = static_cast<char *>(realloc(block, 20 + 2 * round));
        free(block);
        delete[] new long[round + 1];
    }
    return nullptr;
}

int main()
{
    pthread_t threads[4];
    for (auto &thread : threads)
        if (pthread_create(&thread, nullptr, work, nullptr))
            return 1;
    for (auto &thread : threads)
        pthread_join(thread, nullptr);
    void *aligned = nullptr;
    kept[0] = malloc(50001);
    kept[1] = calloc(1, 50002);
    kept[2] = realloc(malloc(1), 50003);
    kept[3] = posix_memalign(&aligned, 64, 50004) ? nullptr : aligned;
    kept[4] = aligned_alloc(64, 64 * 800);
    kept[5] = ::operator new(50005);
    kept[6] = new char[50006];
    kept[7] = strdup("kept");
    std::string big(50007, 'y');
    puts(big.size() == 50007 ? "done" : "?");
    return 0;
}
