// Loads whose values are known after a while: `steady` ones, ones that `change` half way, and calls by method tables, in as
// many rounds as are asked for; `threads`: in two threads; `fork`: in two processes.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct object {
    const struct methods *methods;
    long weight;
};

struct methods {
    long (*first)(struct object *);
    long (*second)(struct object *);
};

static long light(struct object *o) { return o->weight; }
static long heavy(struct object *o) { return 2 * o->weight; }

static const struct methods kinds[] = {{light, light}, {heavy, heavy}};
static struct object objects[] = {{&kinds[0], 1}, {&kinds[1], 2}, {&kinds[0], 3}, {&kinds[0], 4}};
static const long table[8] = {5, 5, 5, 5, 5, 5, 6, 7};
static volatile long same = 42;
static volatile long phase = 1;

// Three in four are 5, one in eight 6, one in eight 7.
__attribute__((noinline)) static long steady(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        sum += ((volatile const long *)table)[i & 7];
        sum += same;
    }
    return sum;
}

__attribute__((noinline)) static long change(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        if (i == n / 2)
            phase = 2;
        sum += phase;
    }
    return sum;
}

__attribute__((noinline)) static long types(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) {
        struct object *o = &objects[i & 3];
        sum += o->methods->second(o);
    }
    return sum;
}

static void *work(void *n) { return (void *)(steady((long)n) + change((long)n)); }

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "steady";
    long n = argc > 2 ? atol(argv[2]) : 1000000;
    long sum = 0;
    if (!strcmp(what, "steady"))
        sum = steady(n);
    else if (!strcmp(what, "change"))
        sum = change(n);
    else if (!strcmp(what, "types"))
        sum = types(n);
    else if (!strcmp(what, "threads")) {
        pthread_t other;
        void *of_other;
        pthread_create(&other, NULL, work, (void *)n);
        sum = steady(n);
        pthread_join(other, &of_other);
        sum += (long)of_other;
    } else if (!strcmp(what, "fork")) {
        sum = steady(n);
        pid_t child = fork();
        if (child == 0) {
            sum = steady(n);
            printf("child %ld\n", sum);
            return 0;
        }
        waitpid(child, NULL, 0);
    }
    printf("%s %ld\n", what, sum);
    return 0;
}
