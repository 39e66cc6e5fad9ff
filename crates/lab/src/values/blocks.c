// A load for each of 512 lines, which are 32 KB and so fit into the first cache, again and again; their order is that of a random number
// generator of that period, which no prefetcher follows. Works for as many turns as its argument says, in thousands.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static _Alignas(4096) unsigned char lines[512 * 64];

__attribute__((noinline)) static void turn(void)
{
    __asm__ volatile(".set block, 0\n\t"
                     ".rept 512\n\t"
                     "movl block * 64(%0), %%eax\n\t"
                     ".set block, (block * 301 + 77) %% 512\n\t"
                     ".endr"
                     :
                     : "r"(lines)
                     : "rax");
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 1;
    for (uint64_t turns = strtoull(argv[1], 0, 10) * 1000; turns; turns--)
        turn();
    puts("done");
    return 0;
}
