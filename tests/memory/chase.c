// Four rings of lines in random order, each followed by a load of its own: one that fits into the first cache, one into the
// second, one half as large again as the second, and one whose lines are flushed behind the load. Sizes come from the kernel. In the
// last one lines lie far from each other: some processors load neighbours together. Works for as many rounds as
// its argument says.
#include <emmintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct line { struct line *next; char rest[56]; };

static long cache(int index)
{
    char path[80];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    FILE *file = fopen(path, "r");
    long kib = 0;
    if (!file || fscanf(file, "%ldK", &kib) != 1)
        kib = 0;
    if (file)
        fclose(file);
    return kib << 10;
}

static struct line *ring(long bytes, long apart)
{
    long count = bytes / sizeof(struct line) / apart;
    struct line *lines = aligned_alloc(4096, bytes);
    long *order = malloc(count * sizeof *order);
    uint64_t random = 88172645463325252u;
    for (long n = 0; n < count; n++)
        order[n] = n;
    for (long n = count - 1; n > 0; n--) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        long other = random % (n + 1), kept = order[n];
        order[n] = order[other], order[other] = kept;
    }
    for (long n = 0; n < count; n++)
        lines[apart * order[n]].next = &lines[apart * order[(n + 1) % count]];
    free(order);
    return lines;
}

#define CHASE(name, after)                                              \
    __attribute__((noinline)) struct line *name(struct line *at, long steps) \
    {                                                                   \
        for (; steps; steps--) {                                        \
            struct line *was = at;                                      \
            at = *(struct line *volatile *)&at->next;                   \
            after;                                                      \
        }                                                               \
        return at;                                                      \
    }

CHASE(in_first, (void)was)
CHASE(in_second, (void)was)
CHASE(in_third, (void)was)
CHASE(in_memory, _mm_clflush(was))

int main(int argc, char **argv)
{
    long first = cache(0), second = cache(2), third = cache(3);
    if (first <= 0 || second <= first || third <= 4 * second) {
        puts("these caches are not known");
        return 2;
    }
    struct line *a = ring(first / 6, 1), *b = ring(second / 8, 1), *c = ring(3 * second / 2, 1), *d = ring(4 * second, 4);
    struct line *ends[] = { a, b, c, d };
    for (long rounds = strtol(argv[1], 0, 10); rounds; rounds--) {
        a = in_first(a, 4000000);
        b = in_second(b, 1000000);
        c = in_third(c, 6 * second / 64);
        d = in_memory(d, 2 * second / 64);
    }
    printf("%d\n", (a == ends[0]) + (b == ends[1]) + (c == ends[2]) + (d == ends[3]));
    return 0;
}
