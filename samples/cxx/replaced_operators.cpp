// Operators that the program replaces, but not all of them: those that are left call the program's. Nothing here is wrong.
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

void *operator new(std::size_t size) { return std::malloc(size); } //~ leak 1 x 12
void operator delete(void *block) noexcept { std::free(block); }

int main()
{
    int *one = new int;
    delete one; // the sized delete, which the library has
    int *many = new int[4];
    delete[] many;
    int *quiet = new (std::nothrow) int;
    delete quiet;
    std::vector<std::string> words(20, std::string(100, 'x'));
    words.emplace_back("y");
    int *kept = new int[3]; // handed out by the program's own operator
    return kept == nullptr;
}
