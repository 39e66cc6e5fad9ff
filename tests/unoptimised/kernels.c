// Loops as books have them, to be compiled without optimisation: `kernels NAME [TIMES]`.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 320, TEXT = 2000, PLACES = 1 << 20 };

static int a[N][N], b[N][N], c[N][N];
static unsigned char bytes[PLACES];
static int rows[2][TEXT + 1];
static uint32_t table[256];

// The inner loop stores nothing but its variables.
static uint32_t product(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            int sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
    return c[N / 2][N / 3];
}

// The inner loop stores to a matrix.
static uint32_t product_in_place(void) {
    memset(c, 0, sizeof c);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                c[i][j] += a[i][k] * b[k][j];
    return c[N / 2][N / 3];
}

static uint32_t crc(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t r = n;
        for (int bit = 0; bit < 8; bit++)
            r = r & 1 ? r >> 1 ^ 0xedb88320u : r >> 1;
        table[n] = r;
    }
    uint32_t sum = ~0u;
    for (int i = 0; i < PLACES; i++)
        sum = sum >> 8 ^ table[(sum ^ bytes[i]) & 0xff];
    return ~sum;
}

static uint32_t collatz(void) {
    uint32_t longest = 0;
    for (uint64_t n = 1; n < 100000; n++) {
        uint32_t steps = 0;
        for (uint64_t x = n; x != 1; steps++)
            x = x % 2 ? 3 * x + 1 : x / 2;
        if (steps > longest)
            longest = steps;
    }
    return longest;
}

// Of two texts; each round stores to a row.
static uint32_t distance(void) {
    for (int j = 0; j <= TEXT; j++)
        rows[0][j] = j;
    for (int i = 1; i <= TEXT; i++) {
        rows[i % 2][0] = i;
        for (int j = 1; j <= TEXT; j++) {
            int best = rows[(i - 1) % 2][j - 1] + (bytes[i] % 4 != bytes[TEXT + j] % 4);
            if (rows[(i - 1) % 2][j] + 1 < best)
                best = rows[(i - 1) % 2][j] + 1;
            if (rows[i % 2][j - 1] + 1 < best)
                best = rows[i % 2][j - 1] + 1;
            rows[i % 2][j] = best;
        }
    }
    return rows[TEXT % 2][TEXT];
}

// Sums of squares of neighbours in a picture of N by N, read with two indices.
static uint32_t picture(void) {
    uint32_t sum = 0;
    for (int times = 0; times < 20; times++)
        for (int y = 1; y < N - 1; y++)
            for (int x = 1; x < N - 1; x++) {
                int edge = a[y][x - 1] + a[y][x + 1] + a[y - 1][x] + a[y + 1][x] - 4 * a[y][x];
                sum += edge * edge;
            }
    return sum;
}

static uint32_t occurrences(void) {
    uint32_t found = 0;
    for (int from = 0; from + 4 < PLACES; from++) {
        int n = 0;
        while (n < 4 && bytes[from + n] % 8 == n)
            n++;
        found += n == 4;
    }
    return found;
}

static const struct {
    const char *name;
    uint32_t (*run)(void);
} kernels[] = {
    {"product", product}, {"product_in_place", product_in_place}, {"crc", crc},         {"collatz", collatz},
    {"distance", distance}, {"picture", picture},                 {"occurrences", occurrences},
};

int main(int argc, char **argv) {
    int times = argc > 2 ? atoi(argv[2]) : 1;
    uint32_t seed = 1, sum = 0;
    for (int i = 0; i < PLACES; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = seed >> 24;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = i * 3 + j;
            b[i][j] = i - 7 * j;
        }
    for (size_t k = 0; argc > 1 && k < sizeof kernels / sizeof *kernels; k++)
        if (strcmp(argv[1], kernels[k].name) == 0) {
            for (int n = 0; n < times; n++)
                sum = sum * 31 + kernels[k].run();
            printf("%u\n", sum);
            return 0;
        }
    fprintf(stderr, "kernels NAME [TIMES]\n");
    return 2;
}
