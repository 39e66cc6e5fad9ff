// A sum of products of two loads: one of a few lines, one of a place anywhere in 128 MB. Works for as many turns as its argument
// says, in millions.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static double near_by[256];

__attribute__((noinline)) static double product(const double *far_off, uint64_t turns)
{
    double sum = 0;
    uint64_t at = 1;
    for (uint64_t n = 0; n < turns; n++) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        double a = *(const volatile double *)&near_by[at >> 56];
        double b = *(const volatile double *)&far_off[at >> 40];
        sum += a * b;
    }
    return sum;
}

int main(int argc, char **argv)
{
    double *far_off = malloc(sizeof(double) << 24);
    if (argc < 2 || !far_off)
        return 1;
    for (int n = 0; n < 256; n++)
        near_by[n] = n;
    for (int n = 0; n < 1 << 24; n++)
        far_off[n] = n % 7;
    printf("%.0f\n", product(far_off, strtoull(argv[1], 0, 10) * 1000000));
    return 0;
}
