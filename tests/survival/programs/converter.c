/* Has libc load a converter for a character set (argv[1]) and unload it again, which is no call of dlclose, and loads a plug-in into the
   place that it leaves. Two plug-ins (argv[2] and [3]), one before and one after, keep a block each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <iconv.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept[2];

static iconv_t start(const char *set) {
    iconv_t with = iconv_open("UTF-8", set);
    if (with == (iconv_t)-1)
        exit(2);
    return with;
}

static unsigned long plug(const char *path, const char *name, void *volatile *kept) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*leak)(void *volatile *) = plugin ? dlsym(plugin, name) : 0;
    struct link_map *map;
    if (!leak || dlinfo(plugin, RTLD_DI_LINKMAP, &map))
        exit(3);
    leak(kept);
    return map->l_addr;
}

/* Where the file with this name lies; all 0 = nowhere. */
static void place(const char *name, unsigned long range[2]) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    range[0] = range[1] = 0;
    while (fgets(line, sizeof line, maps)) {
        char *end;
        unsigned long start = strtoul(line, &end, 16);
        if (!strstr(line, name))
            continue;
        range[0] = range[0] ? range[0] : start;
        range[1] = strtoul(end + 1, 0, 16);
    }
    fclose(maps);
}

int main(int count, char **words) {
    char name[64];
    snprintf(name, sizeof name, "/%s.so", words[1]);
    iconv_t with = start(words[1]);
    unsigned long before[2], left[2];
    place(name, before);
    plug(words[2], "leak_one", &kept[0]);
    iconv_close(with);
    for (int i = 0; i < 20; i++)
        iconv_close(start(i % 2 ? "IBM850" : "KOI8-R"));
    place(name, left);
    unsigned long after = plug(words[3], "leak_two", &kept[1]);
    printf("%d %d %d\n", before[0] != 0, left[0] == 0, after >= before[0] && after < before[1]);
    return 0;
}
