// build: -O1 -fno-inline | -O0 | -O2 -fno-inline | -O2 -fno-inline -fno-reorder-blocks-and-partition
// Exceptions pass frames with and without something to clean up, and are thrown on. `leaf` costs the same wherever it is called:
// tests/contexts.rs knows how often each way leads there.
#include <cstdio>
#define KEEP __attribute__((noinline, noclone))
static volatile int count;

extern "C" {
KEEP void leaf(void) { count = count + 1; }
KEEP void thrower(int n) {
    leaf();
    if (n) thrower(n - 1);
    else throw n;
    count = count + 1;
}
struct Guard { KEEP ~Guard() { leaf(); } };
KEEP void guarded(int n) { Guard guard; thrower(n); count = count + 1; }
KEEP void again(void) {
    try { guarded(1); } catch (int) { leaf(); throw; }
}
KEEP void catches(void) {
    for (int n = 0; n < 4; n++) {
        try { again(); } catch (int) { leaf(); }
        leaf();
    }
}
}

int main() { catches(); leaf(); std::printf("%d\n", count); }
