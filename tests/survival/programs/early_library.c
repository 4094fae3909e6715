/* Its resolver allocates while libraries are still being relocated, before the recorder is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int one_more(int number) { return number + 1; }
static void *volatile kept, *volatile failed, *volatile copy, *volatile aligned;
__attribute__((used)) static int (*resolve(void))(int)
{
    for (int i = 0; i < MANY; i++)
        free(malloc(100));
    kept = malloc(71001);
    free(malloc(71002));
    kept = realloc(kept, 71003);
    free(calloc(3, 71004));
    failed = reallocarray(0, SIZE_MAX, 2);
    copy = strdup("twelve bytes");
    if (posix_memalign((void **)&aligned, 64, 71005))
        return 0;
    return one_more;
}
int add(int number) __attribute__((ifunc("resolve"), visibility("hidden")));
int (*volatile add_by_data)(int) = add;
int use(int number) { return kept ? add_by_data(number) : -1; }
