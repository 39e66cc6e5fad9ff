/* LZ compression of generated text with a hash table of positions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1 << 18, HASH = 1 << 14 };
static unsigned char text[SIZE + 8], out[SIZE * 2];
static int heads[HASH];

static unsigned hash(const unsigned char *p) { return (p[0] * 2654435761u ^ p[1] * 40503u ^ p[2] * 97u) % HASH; }

static int match(const unsigned char *a, const unsigned char *b, int most)
{
    int n = 0;
    while (n < most && a[n] == b[n]) n++;
    return n;
}

static int emit(unsigned char *to, int kind, int value)
{
    to[0] = (unsigned char)kind, to[1] = (unsigned char)value, to[2] = (unsigned char)(value >> 8);
    return kind ? 3 : 2;
}

int main(int argc, char **argv)
{
    static const char *words[] = { "sieve", "screen", "gravel", "ore", "stream", "turning", "drum", "and", "of", "the" };
    long rounds = argc > 1 ? atol(argv[1]) * 4 : 4, sum = 0;
    unsigned seed = 1;
    for (int n = 0; n < SIZE;) {
        const char *w = words[(seed = seed * 1103515245 + 12345) >> 16 & 7];
        for (; *w && n < SIZE; w++) text[n++] = (unsigned char)*w;
        if (n < SIZE) text[n++] = (seed >> 20 & 15) ? ' ' : (unsigned char)(seed >> 24);
    }
    for (long r = 0; r < rounds; r++) {
        memset(heads, 0xff, sizeof heads);
        int length = 0;
        for (int i = 0; i < SIZE;) {
            unsigned h = hash(text + i);
            int at = heads[h], n = at >= 0 ? match(text + at, text + i, SIZE - i < 200 ? SIZE - i : 200) : 0;
            heads[h] = i;
            if (n >= 4) {
                length += emit(out + length, n, i - at);
                i += n;
            } else {
                length += emit(out + length, 0, text[i]);
                i++;
            }
        }
        sum += length;
    }
    printf("%ld\n", sum);
    return 0;
}
