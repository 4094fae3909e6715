// new THREADS PAIRS [mtrace]: as pairs.c, by operators new and delete of C++.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mcheck.h>
#include <new>

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    const long pairs = std::atol(argv[2]);
    if (argc > 3)
        mtrace();
    timespec begin, end;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    void *held[16] = {};
    for (long i = 0; i < pairs; i++) {
        ::operator delete(held[i % 16]);
        held[i % 16] = ::operator new(16 + static_cast<std::size_t>(i % 13) * 24);
    }
    for (void *block : held)
        ::operator delete(block);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    const double ns = double(end.tv_sec - begin.tv_sec) * 1e9 + double(end.tv_nsec - begin.tv_nsec);
    std::printf("%.2f\n", ns / double(pairs));
}
