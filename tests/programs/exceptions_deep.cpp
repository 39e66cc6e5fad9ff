// build: -O2 | -O0 | -O3 -march=native | -O2 -static | -O2 -no-pie
// C++ exceptions thrown through 1000 frames, or as many as the argument says, with destructors, rethrown, nested, and out of std::function.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
static int alive, died;
struct Guard { int n; explicit Guard(int k) : n(k) { alive++; } ~Guard() { alive--; died += n & 1; } };
static __attribute__((noinline)) int dig(int n) { Guard g(n); if (n == 0) throw std::runtime_error("bottom " + std::to_string(alive)); int r = dig(n - 1); return r + g.n; }
static int layers(int n) { try { return n ? layers(n - 1) : dig(10); } catch (std::logic_error &) { return -1; } catch (...) { if (n % 3 == 0) throw; throw std::out_of_range("layer " + std::to_string(n)); } }
int main(int argc, char **argv) {
  int frames = argc > 1 ? std::atoi(argv[1]) : 1000;
  for (int i = 0; i < 20; i++) try { dig(frames + i); } catch (const std::exception &e) { std::printf("%s alive %d died %d\n", e.what(), alive, died); }
  for (int i = 0; i < 8; i++) try { std::printf("%d\n", layers(i)); } catch (const std::exception &e) { std::printf("%d: %s\n", i, e.what()); }
  std::function<int(int)> f = [](int k) { if (k > 2) throw k; return k; };
  for (int i = 0; i < 5; i++) try { std::printf("f %d\n", f(i)); } catch (int k) { std::printf("threw %d\n", k); }
}
