/* Makes its standard output one that does not wait, allocates, and sees to it that the flag is still as it set it. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
    int flags = fcntl(1, F_GETFL) | O_NONBLOCK;
    if (fcntl(1, F_SETFL, flags)) return 1;
    for (int i = 0; i < 20000; i++) free(malloc(100));
    if (fcntl(1, F_GETFL) != flags) return 2;
    struct pollfd room = { .fd = 1, .events = POLLOUT };
    while (write(1, "done\n", 5) != 5) poll(&room, 1, 1000);
    return 0;
}
