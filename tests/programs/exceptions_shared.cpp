// build: -O2 -ldl
// shared: exceptions_shared_lib.cpp
// Exceptions cross dlopen'ed library boundaries both ways, over load/unload cycles.
#include <cstdio>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
extern "C" int helper(int n) { if (n == 3) throw std::runtime_error("from main"); return n; }
int main(int, char **argv) {
  std::string lib = std::string(argv[0]) + ".so";
  for (int round = 0; round < 20; round++) {
    void *h = dlopen(lib.c_str(), RTLD_NOW); if (!h) { std::printf("no library\n"); return 2; }
    auto f = reinterpret_cast<int (*)(int, int (*)(int))>(dlsym(h, "lib_entry"));
    for (int i = 0; i < 6; i++) try { std::printf("%d ", f(i, helper)); } catch (const std::exception &e) { std::printf("[%s] ", e.what()); }
    std::printf("\n"); dlclose(h);
  }
}
