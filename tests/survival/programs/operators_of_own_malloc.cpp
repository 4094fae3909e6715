// A program with an allocator of its own: operators of the library must go on calling that one, not the libc's.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

static int allocations, releases;
alignas(16) static char room[1 << 20];
static std::size_t used;

extern "C" void *malloc(std::size_t size)
{
    ++allocations;
    std::size_t at = used;
    used += (size + 15) & ~std::size_t{15};
    return used <= sizeof room ? room + at : nullptr;
}

extern "C" void free(void *block)
{
    releases += block != nullptr;
}

int main()
{
    int before = allocations, gone = releases;
    for (int round = 0; round < 10; round++)
        delete[] new int[3 * round];
    int *kept = new int;
    std::printf("%d %d %d\n", allocations - before, releases - gone, (char *)kept >= room && (char *)kept < room + sizeof room);
    return 0;
}
