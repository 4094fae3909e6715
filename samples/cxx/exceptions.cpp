// Exceptions are blocks of libstdc++; an object whose constructor throws is released again.
#include <cstdlib>
#include <stdexcept>

struct Throws {
    Throws() { throw std::runtime_error("no"); }
    char bytes[220];
};

int main() {
    int caught = 0;
    for (int i = 0; i < 100; i++) {
        try {
            delete new Throws;
        } catch (const std::exception &) {
            caught++;
        }
    }
    std::malloc(221); //~ leak 1 x 221
    return caught != 100;
}
