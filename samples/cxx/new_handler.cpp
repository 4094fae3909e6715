// A new handler makes room, and operator new tries again: still one allocation.
#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/resource.h>

static void *reserve;

static void make_room() {
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_AS, &limit);
    ::operator delete(reserve);
    reserve = nullptr;
}

int main() {
    reserve = ::operator new(64);
    std::set_new_handler(make_room);
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 64 << 20;
    if (setrlimit(RLIMIT_AS, &limit))
        return 1;
    ::operator new(256 << 20); //~ leak 1 x 268435456
    return reserve != nullptr;
}
