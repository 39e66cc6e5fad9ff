// library of exceptions_shared.cpp
#include <stdexcept>
struct D { int *p; ~D() { ++*p; } };
static int gone;
extern "C" int lib_entry(int n, int (*cb)(int)) { D d{&gone}; if (n == 5) throw std::logic_error("from library"); try { return cb(n) * 10 + gone; } catch (std::runtime_error &) { if (gone % 2) throw; return -7; } }
