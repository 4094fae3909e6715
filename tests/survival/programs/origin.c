/* Opens the plug-in argv[1] and says what it found. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = dlopen(argv[1], RTLD_NOW);
    const char *(*word)(void) = plugin ? dlsym(plugin, "plugin_word") : 0;
    puts(word ? word() : dlerror());
    return 0;
}
