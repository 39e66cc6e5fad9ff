/* Programs that stay in the code cache: one has nothing added, the others are mostly calls. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static unsigned long fib(unsigned long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static void *calls(void *n) {
    return (void *)fib((unsigned long)n);
}

static unsigned long loop(unsigned long rounds) {
    unsigned long x = 88172645463325252UL;
    while (rounds--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "loop")) {
        printf("%lu\n", loop(400000000));
    } else if (argc > 1 && !strcmp(argv[1], "threads")) {
        pthread_t threads[3];
        unsigned long sum = 0;
        for (unsigned long t = 0; t < 3; t++) pthread_create(&threads[t], NULL, calls, (void *)(37 + t));
        for (int t = 0; t < 3; t++) {
            void *value;
            pthread_join(threads[t], &value);
            sum += (unsigned long)value;
        }
        printf("%lu\n", sum);
    } else {
        printf("%lu\n", fib(41));
    }
    return 0;
}
