/* Its resolver allocates while libraries are still being relocated, before the recorder is. */
#include <stdlib.h>

static int one_more(int number) { return number + 1; }
static void *volatile kept;
__attribute__((used)) static int (*resolve(void))(int)
{
    kept = malloc(71001);
    free(malloc(71002));
    kept = realloc(kept, 71003);
    free(calloc(3, 71004));
    return one_more;
}
int add(int number) __attribute__((ifunc("resolve"), visibility("hidden")));
int (*volatile add_by_data)(int) = add;
int use(int number) { return kept ? add_by_data(number) : -1; }
