// Says that it is ready, waits for a byte, and does work whose branches are known.
#include <stdio.h>
#include <unistd.h>

static volatile long odd, sum;

__attribute__((noinline)) static void leaf(long n) { sum += n; }

__attribute__((noinline)) static void work(void) {
    for (long i = 0; i < 1000000; i++) {
        if (i % 3 == 0) odd++;
        leaf(i);
    }
}

int main(void) {
    char c;
    if (write(1, "ready\n", 6) != 6 || read(0, &c, 1) != 1) return 1;
    work();
    printf("%ld %ld\n", odd, sum);
    return 0;
}
