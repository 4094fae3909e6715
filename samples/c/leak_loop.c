/* Three blocks of one site are lost; one block is released late. */
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 3; i++)
        malloc(48); //~ leak 3 x 48
    void *late = malloc(8);
    free(late);
    return 0;
}
