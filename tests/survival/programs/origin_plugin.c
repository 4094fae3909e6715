/* Opens a library beside itself by its bare name, as its own search path allows, and finds the next definition of a function. */
#define _GNU_SOURCE
#include <dlfcn.h>

const char *hidden_word(void) { return "plugin"; }
const char *plugin_word(void)
{
    void *beside = dlopen("libbeside.so", RTLD_NOW | RTLD_GLOBAL);
    if (!beside) return dlerror();
    const char *(*own)(void) = dlsym(beside, "beside_word");
    void *(*next)(unsigned long) = dlsym(RTLD_NEXT, "malloc");
    return own && next ? own() : "not found";
}
