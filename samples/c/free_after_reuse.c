/* The same address is handed out again between two releases: no double free. */
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 100; i++) {
        void *block = malloc(40);
        free(block);
    }
    return 0;
}
