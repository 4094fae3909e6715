// Every form of operator new, once kept and once released by its partner: one record each, size as requested.
#include <cstddef>
#include <new>

struct alignas(64) Wide {
    char bytes[64];
};

struct Counted { // an array of these has a count before its first element
    ~Counted() {}
    alignas(8) char bytes[8];
};

int main() {
    new char;                             //~ leak 1 x 1
    new char[202];                        //~ leak 1 x 202
    new (std::nothrow) short;             //~ leak 1 x 2
    new (std::nothrow) char[204];         //~ leak 1 x 204
    new Wide;                             //~ leak 1 x 64
    new Wide[3];                          //~ leak 1 x 192
    new (std::nothrow) Wide;              //~ leak 1 x 64
    new (std::nothrow) Wide[4];           //~ leak 1 x 256
    ::operator new(207);                  //~ leak 1 x 207
    ::operator new[](208);                //~ leak 1 x 208
    ::operator new(209, std::align_val_t(128)); //~ leak 1 x 209
    new Counted[5];                       //~ leak 1 x 48

    delete new char;
    delete[] new char[2];
    delete new (std::nothrow) int;
    delete[] new (std::nothrow) int[2];
    delete new Wide;
    delete[] new Wide[3];
    delete[] new Counted[5];
    ::operator delete(::operator new(17), std::size_t(17));
    ::operator delete[](::operator new[](18), std::size_t(18));
    ::operator delete(::operator new(19), std::nothrow);
    ::operator delete(::operator new(20, std::align_val_t(64)), std::align_val_t(64));
    ::operator delete[](::operator new[](21, std::align_val_t(64)), std::size_t(21), std::align_val_t(64));
    delete static_cast<char *>(nullptr);
    return 0;
}
