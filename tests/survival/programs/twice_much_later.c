/* Releases a block a second time when much else has come and gone. */
#include <stdlib.h>

int main(void)
{
    char *volatile block = malloc(24);
    free(block);
    for (int i = 0; i < 2000; i++) free(malloc(500 + i % 100));
    free(block);
    return 0;
}
