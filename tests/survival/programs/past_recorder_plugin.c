/* Opened with RTLD_DEEPBIND: its malloc is the libc's own. */
#include <stdlib.h>

void *plugin_get(size_t size) { return malloc(size); }
