// Works a little, forks two children that work more, each in a function of its own, and waits for them.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile uint64_t sink;
static inline __attribute__((always_inline)) uint64_t compute(uint64_t n) { uint64_t s = n; while (n--) { s = s * 31 + (s >> 7); if (s % 7 == 3) s ^= n; } return s; }
__attribute__((noinline)) static void parent(uint64_t n) { sink = compute(n); }
__attribute__((noinline)) static void child(uint64_t n) { sink = compute(n); sink++; }

int main(int argc, char **argv)
{
    uint64_t n = strtoull(argv[1], 0, 10);
    int status, sum = 0;
    parent(n);
    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            child(4 * n);
            _exit(3);
        }
    while (wait(&status) > 0) sum += WEXITSTATUS(status);
    printf("%d\n", sum);
    return 0;
}
