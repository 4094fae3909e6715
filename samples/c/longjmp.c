/* Leaves functions without returning from them. */
#include <setjmp.h>
#include <stdlib.h>

static jmp_buf back;

static void deeper(int depth) {
    if (depth == 0)
        longjmp(back, 1);
    malloc(150); //~ leak 30 x 150
    deeper(depth - 1);
}

int main(void) {
    for (volatile int i = 0; i < 10; i++)
        if (setjmp(back) == 0)
            deeper(3);
    return 0;
}
