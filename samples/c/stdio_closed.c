/* Closes every descriptor, opens files of its own, and finds in them only what it wrote. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void) {
    char path[] = "/tmp/heapwire-sample-XXXXXX", back[64];
    struct stat status;
    int files[20];
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    files[0] = mkstemp(path);
    if (files[0] < 0)
        return 1;
    for (int i = 1; i < 20; i++)
        files[i] = open(path, O_RDWR | O_APPEND);
    for (int i = 0; i < 20000; i++)
        free(malloc(190));
    malloc(191); //~ leak 1 x 191
    if (write(files[0], "mine\n", 5) != 5 || fstat(files[0], &status) || status.st_size != 5)
        return 2;
    if (pread(files[1], back, sizeof back, 0) != 5 || memcmp(back, "mine\n", 5))
        return 3;
    return unlink(path);
}
