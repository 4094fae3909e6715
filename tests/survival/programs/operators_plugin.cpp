// A plug-in in C++. With OWN it has operators of its own, which put OWN in front of each block and end the process when they are
// given one of others. With HELPER it has a helper library do the allocation, which it releases.
#include <cstdio>
#include <cstdlib>
#include <new>

#ifdef OWN
static thread_local int made, released;

void *operator new(std::size_t size)
{
    long *block = static_cast<long *>(std::malloc(size + 16));
    if (!block) throw std::bad_alloc();
    *block = OWN;
    made++;
    return block + 2;
}
void operator delete(void *block) noexcept
{
    if (!block) return;
    long *own = static_cast<long *>(block) - 2;
    if (*own != OWN) {
        std::puts("a block of others");
        std::abort();
    }
    *own = 0;
    released++;
    std::free(own);
}
void operator delete(void *block, std::size_t) noexcept { operator delete(block); }
void *operator new[](std::size_t size) { return operator new(size); }
void operator delete[](void *block) noexcept { operator delete(block); }
void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return operator new(size); }
#endif

#ifdef HELPER
extern "C" int *help(int);
#else
static int *help(int value) { return new int(value); }
#endif

// Uses operators while it is loaded and unloaded as well.
struct Always {
    int *block = new int(1);
    ~Always() { delete block; }
};
static Always always;

static void *volatile kept;

extern "C" const char *use()
{
    static thread_local char said[80];
    if (!kept) kept = new char[4321]; // kept
#ifdef OWN
    made = released = 0;
#endif
    for (int i = 0; i < 20; i++) {
        delete help(i);
        delete[] new int[3];
        delete new (std::nothrow) int(i);
    }
    int failed = 0;
    try {
        operator delete(operator new(static_cast<std::size_t>(-1) / 4));
    } catch (const std::bad_alloc &) {
        failed = 1;
    }
#ifdef OWN
    std::snprintf(said, sizeof said, "%lx %d %d %d", static_cast<long>(OWN), made, released, failed);
#else
    std::snprintf(said, sizeof said, "the library's, %d", failed);
#endif
    return said;
}
