// Loads whose strides are known, and loads that read what one of two stores has written. Works for as many turns as its argument says, in as many children, too, as
// a second one says, and says what it has computed.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES = 512 };
static volatile uint64_t table[LINES][8];
static volatile uint64_t cell;

// One stride, but for one turn in 512: by 64 bytes.
__attribute__((noinline)) uint64_t by_lines(uint64_t turns)
{
    uint64_t sum = 0;
    for (uint64_t n = 0; n < turns; n++)
        sum += table[n % LINES][0];
    return sum;
}

// Three in four by 8 bytes, the fourth by 24 back.
__attribute__((noinline)) uint64_t to_and_fro(uint64_t turns)
{
    uint64_t sum = 0;
    for (uint64_t n = 0; n < turns; n++)
        sum += table[1][n % 4];
    return sum;
}

__attribute__((noinline)) void often(uint64_t n)
{
    cell = n;
}

__attribute__((noinline)) void rarely(uint64_t n)
{
    cell = n ^ 1;
}

// What is loaded one store has written four times in five, the other once.
__attribute__((noinline)) uint64_t from_stores(uint64_t turns)
{
    uint64_t sum = 0;
    for (uint64_t n = 0; n < turns; n++) {
        if (n % 5 == 0)
            rarely(n);
        else
            often(n);
        sum += cell;
    }
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t turns = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    uint64_t sum = 0;
    for (unsigned n = 0; n < LINES; n++)
        for (unsigned k = 0; k < 8; k++)
            table[n][k] = n * k;
    int children = argc > 2 ? atoi(argv[2]) : 0, child = 0;
    for (int n = 0; n < children && !child; n++)
        child = fork() == 0;
    // In turn, so that none of them has the program's first or last moments for itself.
    for (unsigned round = 0; round < 50; round++)
        sum += by_lines(turns) + to_and_fro(turns) + from_stores(turns);
    if (child)
        _exit(0);
    while (wait(NULL) > 0)
        ;
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
