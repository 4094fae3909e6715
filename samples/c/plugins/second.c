/* The second plugin of dlopen_reuse.c: as large as the first, other lines. */
#include <stdlib.h>

/* What the first plugin has
   at its line 5 is
   nothing here. */

void entry(void) {
    free(malloc(123));
    malloc(124); //~ leak 10 x 124
}
