// Four rings of lines in random order, each followed by a load of its own: one that fits into the first cache, one into the
// second, one half as large again as the second, and one whose lines are flushed behind the load. Sizes come from the kernel. In the
// last one lines lie far from each other: some processors load neighbours together. Works for as many rounds as
// its argument says, and says of each ring how many nanoseconds of CPU time a step took.
#include <emmintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv)
{
    long first = cache(0), second = cache(2), third = cache(3);
    if (first <= 0 || second <= first || third <= 4 * second) {
        puts("these caches are not known");
        return 2;
    }
    struct line *a = ring(first / 6, 1), *b = ring(second / 8, 1), *c = ring(3 * second / 2, 1), *d = ring(4 * second, 4);
    static const char *names[] = { "first", "second", "third", "memory" };
    long steps[] = { 4000000, 1000000, 6 * second / 64, 2 * second / 64 };
    long rounds = strtol(argv[1], 0, 10);
    double took[4] = { 0 };
    for (long round = 0; round < rounds; round++) {
        double began[5];
        began[0] = now();
        a = in_first(a, steps[0]);
        began[1] = now();
        b = in_second(b, steps[1]);
        began[2] = now();
        c = in_third(c, steps[2]);
        began[3] = now();
        d = in_memory(d, steps[3]);
        began[4] = now();
        for (int n = 0; n < 4; n++)
            took[n] += began[n + 1] - began[n];
    }
    if (!a || !b || !c || !d)
        return 1;
    for (int n = 0; n < 4; n++)
        printf("%s %.1f\n", names[n], took[n] / (rounds * steps[n]));
    return 0;
}
