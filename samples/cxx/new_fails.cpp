// operator new that throws, and the nothrow one that gives a null pointer: two failed requests, no block.
#include <cstddef>
#include <cstdint>
#include <new>

int main() {
    volatile std::size_t too_much = SIZE_MAX / 2;
    bool thrown = false;
    try {
        ::operator new(too_much);
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    if (!thrown || ::operator new(too_much, std::nothrow) != nullptr)
        return 1;
    ::operator new(210); //~ leak 1 x 210
    return 0;
}
