/* Preloaded with glibc's debugging library: has it record from the start, whatever the program. */
#include <mcheck.h>

__attribute__((constructor)) static void start(void) { mtrace(); }
