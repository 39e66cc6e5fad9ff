/* What this machine's memory is like: seconds to write a byte to each page of a free GiB, and of the same again, just given back;
 * nanoseconds of a load from anywhere in 256 MiB on small pages and on huge ones. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

static double now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static char *take(size_t size, int advice)
{
    char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, size, advice);
    return memory;
}

static double touch(char *memory, size_t size)
{
    double began = now();
    for (size_t n = 0; n < size; n += 4096) memory[n] = 1;
    return now() - began;
}

static double loads(int advice)
{
    enum { SIZE = 256 << 20, LOADS = 20000000 };
    char *memory = take(SIZE, advice);
    touch(memory, SIZE);
    uint64_t at = 88172645463325252u, sum = 0;
    double began = now();
    for (int n = 0; n < LOADS; n++) {
        at ^= at << 13, at ^= at >> 7, at ^= at << 17;
        /* One waits for the other. */
        sum += ((volatile uint64_t *)memory)[(at + (sum & 1)) % (SIZE / 64) * 8];
    }
    double took = (now() - began) / LOADS * 1e9;
    munmap(memory, SIZE);
    return took;
}

int main(void)
{
    size_t size = (size_t)1 << 30;
    for (int again = 0; again < 2; again++) {
        char *memory = take(size, MADV_HUGEPAGE);
        printf("a GiB touched, %s: %.2f s\n", again ? "and once more" : "free", touch(memory, size));
        munmap(memory, size);
    }
    printf("a load from 256 MiB, small pages: %.0f ns, huge pages: %.0f ns\n", loads(MADV_NOHUGEPAGE), loads(MADV_HUGEPAGE));
    return 0;
}
