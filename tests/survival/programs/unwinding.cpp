// Prints for each way to allocate and to release whether the allocator finds this program on its stack.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>

static void **sought;
static int *found;

// Its code is what is looked for.
#define TRY(NAME, ...)                                   \
    extern "C" __attribute__((noinline)) void try_##NAME() \
    {                                                    \
        *sought = (void *)&try_##NAME;                   \
        *found = 0;                                      \
        __VA_ARGS__;                                     \
        *sought = nullptr;                               \
        printf("%s %d\n", #NAME, *found);                \
    }

static void *volatile block;

TRY(malloc, block = malloc(40))
TRY(realloc, block = realloc(block, 400))
TRY(free, free(block))
TRY(usual_free, for (int i = 0; i < 9; i++) free(malloc(40)))
TRY(calloc, block = calloc(4, 40))
TRY(reallocarray, block = reallocarray(block, 4, 400))
TRY(new, block = operator new(50))
TRY(delete, operator delete(block))
TRY(array, block = operator new[](60))
TRY(array_delete, operator delete[](block))
TRY(aligned, block = aligned_alloc(64, 128))
TRY(strdup, block = strdup("text"))
TRY(asprintf, char *text; if (asprintf(&text, "%d %f", 1, 2.0) > 0) block = text)
TRY(posix_memalign, void *out; if (posix_memalign(&out, 64, 128) == 0) block = out)

int main()
{
    sought = (void **)dlsym(RTLD_DEFAULT, "sought");
    found = (int *)dlsym(RTLD_DEFAULT, "found");
    if (!sought || !found) return 1;
    setvbuf(stdout, nullptr, _IONBF, 0);
    try_malloc();
    try_realloc();
    try_free();
    try_usual_free();
    try_calloc();
    try_reallocarray();
    try_new();
    try_delete();
    try_array();
    try_array_delete();
    try_aligned();
    try_strdup();
    try_asprintf();
    try_posix_memalign();
    return 0;
}
