/* Cellular automata on a grid: loops over arrays, with small functions in them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 256, HEIGHT = 256 };
static unsigned char cells[2][HEIGHT][WIDTH];

static int at(int g, int y, int x) { return cells[g][(y + HEIGHT) % HEIGHT][(x + WIDTH) % WIDTH]; }

static int around(int g, int y, int x)
{
    int n = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dy || dx) n += at(g, y + dy, x + dx);
    return n;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) * 3 : 3, alive = 0;
    unsigned seed = 5;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) cells[0][y][x] = (seed = seed * 1103515245 + 12345) >> 30 & 1;
    for (long r = 0; r < rounds; r++) {
        int from = (int)(r & 1);
        alive = 0;
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++) {
                int n = around(from, y, x);
                int lives = n == 3 || (n == 2 && at(from, y, x));
                cells[!from][y][x] = (unsigned char)lives;
                alive += lives;
            }
    }
    printf("%ld\n", alive);
    return 0;
}
