// A function of the C library that is always given the same pointer. Works for as many turns as its argument says.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned state;

int main(int argc, char **argv)
{
    uint64_t turns = strtoull(argv[1], 0, 10), sum = 0;
    for (uint64_t i = 0; i < turns; i++)
        sum += rand_r(&state);
    printf("%llx\n", (unsigned long long)sum);
    return 0;
}
