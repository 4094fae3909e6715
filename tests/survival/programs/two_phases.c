/* argv[1] pairs of malloc and free, a word on standard output, a byte from standard input, as many pairs again, and, when whoever reads
   had time to come after, a block that stays. */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char byte;
    long pairs = argc > 1 ? atol(argv[1]) : 1000;
    void *volatile kept;
    for (long i = 0; i < pairs; i++) free(malloc(16 + i % 500));
    if (write(1, "first\n", 6) != 6 || read(0, &byte, 1) != 1) return 1;
    for (long i = 0; i < pairs; i++) free(malloc(16 + i % 500));
    usleep(500 * 1000);
    kept = malloc(70001);
    return kept ? 0 : 2;
}
