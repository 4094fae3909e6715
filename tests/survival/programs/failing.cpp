// What a program sees of an allocator that fails, and of a product that overflows.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <new>

int main()
{
    int *fail = (int *)dlsym(RTLD_DEFAULT, "fail");
    for (int i = 0; i < 2; i++) {
        if (fail) *fail = 1;
        try {
            void *block = i ? operator new[](50) : operator new(50);
            printf("%d\n", block != nullptr);
        } catch (std::bad_alloc &) {
            puts("bad_alloc");
        }
    }
    volatile size_t count = (size_t)-1 / 2;
    errno = 0;
    void *block = reallocarray(nullptr, count, 4);
    printf("%d %d\n", block != nullptr, errno == ENOMEM);
    return 0;
}
