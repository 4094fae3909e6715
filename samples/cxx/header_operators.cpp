// Operators that put a header in front of each block, in the way of debugging allocators. Nothing here is wrong.
#include <cstdlib>
#include <new>

struct Tagged {
    static void *operator new(std::size_t size)
    {
        char *block = static_cast<char *>(std::malloc(size + 16)); //~ leak 1 x 40
        return block + 16;
    }
    static void operator delete(void *block) { std::free(static_cast<char *>(block) - 16); }
    char content[24];
};

int main()
{
    delete new Tagged;
    Tagged *kept = new Tagged;
    return kept == nullptr;
}
