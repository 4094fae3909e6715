// Released by another family than allocated: every pair of the three, and none where the pair is right.
#include <cstdlib>
#include <malloc.h>
#include <new>

static void free_it(void *block) {
    std::free(block); //~ mismatched-free x 2
}

int main() {
    free_it(::operator new(24));
    free_it(::operator new[](25));
    ::operator delete(std::malloc(26));                              //~ mismatched-free
    ::operator delete[](std::malloc(27));                            //~ mismatched-free
    ::operator delete(::operator new[](28));                         //~ mismatched-free
    ::operator delete[](::operator new(29));                         //~ mismatched-free
    ::operator delete(memalign(64, 30), std::align_val_t(64));       //~ mismatched-free
    ::operator delete[](::operator new[](31));
    ::operator delete(::operator new(64, std::align_val_t(64)), std::align_val_t(64));
    std::free(memalign(64, 32));
    return 0;
}
