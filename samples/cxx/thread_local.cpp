// Destructors of thread_local objects release when the thread ends.
//@ flags -pthread
#include <cstdlib>
#include <thread>
#include <vector>

struct Holder {
    ~Holder() {
        std::free(block);
        std::malloc(231); //~ leak 5 x 231
    }
    void *block = nullptr;
};

static thread_local Holder holder;

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 5; i++)
        threads.emplace_back([] { holder.block = std::malloc(230); });
    for (auto &thread : threads)
        thread.join();
    return 0;
}
