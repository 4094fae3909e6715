// An ordinary program: maps, strings and vectors that grow and go.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

int main() {
    std::map<std::string, std::vector<int>> table;
    for (int i = 0; i < 20000; i++)
        table["a key that is too long for the small string " + std::to_string(i % 500)].push_back(i);
    long sum = 0;
    for (const auto &[key, values] : table)
        for (int value : values)
            sum += value + static_cast<long>(key.size());
    std::printf("%ld\n", sum);
    return 0;
}
