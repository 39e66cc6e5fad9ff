/* Counts the words of a text that it makes itself: a program with hot and rare code side by side, for `trommel help bolt` and its sisters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 16384, TEXT = 1 << 16 };

struct word { char name[12]; unsigned times; };

static struct word table[SLOTS];
static char text[TEXT];

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void make(unsigned seed)
{
    for (int i = 0; i < TEXT - 1; i++) {
        unsigned r = next(&seed);
        text[i] = r % 6 == 0 ? ' ' : r % 211 == 0 ? '\n' : (char)('a' + r % 2);
    }
}

static unsigned hash(const char *name, int length)
{
    unsigned h = 2166136261u;
    for (int i = 0; i < length; i++)
        h = (h ^ (unsigned char)name[i]) * 16777619u;
    return h;
}

__attribute__((noinline)) static int add(const char *name, int length)
{
    if (length > 11) {
        if (name[0] == 'x')
            fprintf(stderr, "odd word\n");
        length = 11;
    }
    unsigned at = hash(name, length) % SLOTS;
    for (int tries = 0; tries < SLOTS; tries++, at = (at + 1) % SLOTS) {
        struct word *word = &table[at];
        if (word->times == 0) {
            memcpy(word->name, name, (size_t)length);
            word->name[length] = 0;
        } else if (strncmp(word->name, name, (size_t)length) != 0 || word->name[length] != 0) {
            continue;
        }
        word->times++;
        return 0;
    }
    return -1;
}

__attribute__((noinline)) static int count(void)
{
    int words = 0, start = -1;
    for (int i = 0; i < TEXT; i++) {
        char c = text[i];
        if (c == '\t' || c == '\v' || c == '\f') {
            fprintf(stderr, "unusual blank at %d\n", i);
            continue;
        }
        if (c >= 'a' && c <= 'z') {
            if (start < 0)
                start = i;
            continue;
        }
        if (start >= 0) {
            if (add(text + start, i - start) < 0) {
                fprintf(stderr, "too many words\n");
                exit(1);
            }
            words++;
        }
        start = -1;
        if (c == 0)
            break;
    }
    return words;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10, words = 0;
    for (int i = 0; i < rounds; i++) {
        make((unsigned)i % 3);
        words += count();
    }
    printf("%d\n", words);
    return 0;
}
