/* Functions of libc that allocate for their caller: the line is the caller's, not one inside libc. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

static char *formatted(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) //~ leak 1 x 100
        text = NULL;
    va_end(arguments);
    return text;
}

int main(void) {
    char *text = NULL, *line = NULL;
    strdup("0123456789");      //~ leak 1 x 11
    strndup("0123456789", 5);  //~ leak 1 x 6
    wcsdup(L"012");            //~ leak 1 x 16
    if (asprintf(&text, "%s", "0123") < 0) //~ leak 1 x 5
        return 1;
    formatted("%099d", 7);
    FILE *stream = fmemopen("one line\n", 9, "r");
    size_t room = 0;
    if (stream == NULL || getline(&line, &room, stream) != 9) //~ leak 1 x 120
        return 2;
    fclose(stream);
    free(strdup("released"));
    free(realpath("/", NULL));
    free(getcwd(NULL, 0));
    return 0;
}
