/* Threads that change a graph of objects without end: gc STORES [THREADS] [MEGABYTES] [check] [forget] [stay]
 *
 * check   collections follow each other without a pause, and each is checked: all that can be reached must be marked
 * forget  the collector forgets what the barrier tells it, which has to be noticed
 * stay    threads go on until messages of a query have ended
 *
 * Exit status 1: an object was lost. */
#include "heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static long stores;
static int threads = 1, staying;

static uint64_t random_of(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

static ref checked(ref o) {
    if (o && o->check != ALIVE) fprintf(stderr, "an object was freed that the program has: %p\n", (void *)o), abort();
    return o;
}
static ref load(ref *from) { return checked(__atomic_load_n(from, __ATOMIC_ACQUIRE)); }

/* Some steps along references. */
static ref walk(ref o, uint64_t way) {
    for (int steps = way & 3; o && steps; steps--) {
        way >>= 4;
        ref next = load(&o->field[way % o->fields]);
        if (!next) break;
        o = next;
    }
    return o;
}

static void *mutate(void *argument) {
    struct mutator *m = argument;
    uint64_t state = 88172645463325252u + 7919 * (uint64_t)(m - mutators);
    int forgotten = heap.overflows;
    mutator_begin(m);
    while (m->stores < (uint64_t)(stores / threads) || (staying && mode == BY_QUERY)) {
        safepoint(m);
        if (forgotten != heap.overflows) {
            forgotten = heap.overflows;
            memset(m->root, 0, sizeof m->root), memset(globals, 0, sizeof globals);
        }
        uint64_t r = random_of(&state), what = r >> 56;
        ref *root = &m->root[r % ROOTS], *other = &m->root[r >> 8 & (ROOTS - 1)];
        if (what < 32 || !*root) {
            /* A new one, which refers to another. */
            ref o = heap_new(m, what % CLASSES);
            if (*other) heap_store(&o->field[0], checked(*other)), m->stores++;
            *root = o;
            continue;
        }
        ref to = walk(checked(*root), r >> 16);
        ref *field = &to->field[(r >> 32 & 0xff) % to->fields];
        if (what < 64) {
            /* A new one in an old one. */
            ref kept = *root;
            ref o = heap_new(m, what % CLASSES);
            to = walk(kept, r >> 16);
            heap_store(&to->field[(r >> 32 & 0xff) % to->fields], o), m->stores++;
        } else if (what < 112) {
            /* Moved: where it was it is no more. */
            ref o = load(field), into = walk(checked(*other), r >> 40);
            if (!into) continue;
            heap_store(&into->field[(r >> 48 & 0xff) % into->fields], o);
            heap_store(field, 0);
            m->stores += 2;
        } else if (what < 208) {
            heap_store(field, walk(checked(*other), r >> 40)), m->stores++;
        } else if (what < 216) {
            heap_store(field, 0), m->stores++;
        } else if (what < 236) {
            *root = to;
        } else if (what < 240) {
            *root = 0;
        } else if (what < 248) {
            __atomic_store_n(&globals[r >> 40 & (GLOBALS - 1)], to, __ATOMIC_RELEASE);
        } else {
            ref shared = load(&globals[r >> 40 & (GLOBALS - 1)]);
            if (shared) *root = shared;
        }
    }
    memset(m->root, 0, sizeof m->root);
    mutator_end(m);
    return 0;
}

int main(int argc, char **argv) {
    pthread_t thread[MUTATORS];
    long megabytes = 64;
    stores = argc > 1 ? atol(argv[1]) : 1000000;
    if (argc > 2) threads = atoi(argv[2]);
    if (argc > 3) megabytes = atol(argv[3]);
    for (int n = 4; n < argc; n++) checking |= !strcmp(argv[n], "check"), forgetful |= !strcmp(argv[n], "forget"), staying |= !strcmp(argv[n], "stay");
    if (threads < 1 || threads > MUTATORS || megabytes < 2) return 2;
    heap_make(megabytes << 20);
    collector_start();
    static const char *names[] = {"stopped", "compiled", "query"};
    printf("barrier %s\n", names[mode]);
    fflush(stdout);
    for (int k = 0; k < threads; k++) pthread_create(&thread[k], 0, mutate, &mutators[k]);
    long all = 0, objects = 0;
    for (int k = 0; k < threads; k++) {
        pthread_join(thread[k], 0);
        all += mutators[k].stores, objects += mutators[k].allocated;
    }
    collector_end();
    printf("ended %s\nstores %ld\nobjects %ld\ncollections %ld\nmessages %ld\n", names[mode], all, objects, heap.cycles, figures.messages);
    printf("pauses %ld\npause_mean_us %.0f\npause_most_us %.0f\n", figures.pauses, figures.pauses ? figures.paused / figures.pauses * 1e6 : 0, figures.longest * 1e6);
    printf("checked %ld\nlost %ld\nmarked %ld\nreachable %ld\n", figures.checked, figures.lost, figures.marked, figures.reachable);
    return figures.lost != 0;
}
