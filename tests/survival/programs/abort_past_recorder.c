/* Releases blocks that it got past the recorder, and then gives up for another reason: its argument says how. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_memalign(size_t, size_t);

int main(int count, char **arguments)
{
    free(malloc(10));
    void *volatile block = __libc_memalign(4096, 100000);
    setbuf(stdout, 0);
    free(block);
    if (!strcmp(arguments[1], "abort")) abort();
    assert(!block);
    return 0;
}
