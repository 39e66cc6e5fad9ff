// A loop in which one instruction takes longer than all others together: a signal comes behind it most of the time. Each of
// the loads is executed as often as any other. Works for as many turns as its argument says.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static volatile uint64_t cells[16];

int main(int argc, char **argv)
{
    uint64_t sum = 1;
    for (uint64_t turns = strtoull(argv[1], 0, 10); turns; turns--) {
        uint64_t high = 0, low = sum | 1ull << 63;
        __asm__ volatile("div %2" : "+a"(low), "+d"(high) : "r"(cells[0] | 3) : "cc");
        sum += low;
        sum += cells[1]; sum ^= cells[2]; sum += cells[3]; sum ^= cells[4];
        sum += cells[5]; sum ^= cells[6]; sum += cells[7]; sum ^= cells[8];
        sum += cells[9]; sum ^= cells[10]; sum += cells[11]; sum ^= cells[12];
    }
    printf("%llx\n", (unsigned long long)sum);
    return 0;
}
