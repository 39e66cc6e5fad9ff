/* The collector: a thread that marks while the program runs, and serves the queue of its store barrier. */
#define _GNU_SOURCE
#include "heap.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../include/trommel.h"

enum mode mode;
int checking, forgetful;
struct figures figures;
__thread struct mutator *self;

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t go = PTHREAD_COND_INITIALIZER;
static volatile int running, standing, ready, finish;

enum { ROOM = 1 << 13 };
static struct trommel_queue *queue;

/* ---- Mutators ---- */

/* Sends what it has stored, which may wait for the collector: no lock is held. */
static void flush(struct mutator *m) { m->flushed = mode != BY_QUERY || trommel_flush(QUEUE) == TROMMEL_DONE; }

/* Stands still until the collector has finished, with the lock held. */
static void stand(void) {
    standing++;
    while (heap.stop) pthread_cond_wait(&go, &lock);
    standing--;
}

void safepoint_slow(struct mutator *m) {
    flush(m);
    pthread_mutex_lock(&lock);
    if (heap.stop) stand();
    pthread_mutex_unlock(&lock);
}

/* There is no memory: stands still until a collection that begins from here on has ended. */
void wait_for_cycle(struct mutator *m) {
    long enough = heap.cycles + 2;
    pthread_mutex_lock(&lock);
    if (heap.wanted < enough) heap.wanted = enough;
    pthread_mutex_unlock(&lock);
    while (heap.cycles < enough) {
        safepoint(m);
        usleep(50);
    }
}

void mutator_begin(struct mutator *m) {
    self = m;
    m->flushed = 1;
    if (!m->shaded) m->shaded = malloc(heap.blocks * (BLOCK / GRANULE) * sizeof(ref));
    pthread_mutex_lock(&lock);
    while (heap.stop) pthread_cond_wait(&go, &lock);
    running++;
    pthread_mutex_unlock(&lock);
}

void mutator_end(struct mutator *m) {
    flush(m);
    pthread_mutex_lock(&lock);
    if (heap.stop) stand();
    running--;
    pthread_mutex_unlock(&lock);
}

/* ---- Marking ---- */

static ref *stack;
static long height;
static uint8_t dead, live;

static inline void shade(ref o) {
    uint8_t *colour = colour_of(o), white = dead;
    if (__atomic_load_n(colour, __ATOMIC_RELAXED) != dead) return;
    if (__atomic_compare_exchange_n(colour, &white, live, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) stack[height++] = o;
}

static void trace(long most) {
    while (height && most--) {
        ref o = stack[--height];
        for (uint32_t n = 0; n < o->fields; n++) {
            ref to = __atomic_load_n(&o->field[n], __ATOMIC_ACQUIRE);
            if (to) shade(to);
        }
    }
}

static void shade_roots(void) {
    for (int n = 0; n < GLOBALS; n++) if (globals[n]) shade(globals[n]);
    for (int k = 0; k < MUTATORS; k++) {
        struct mutator *m = &mutators[k];
        for (int n = 0; n < ROOTS; n++) if (m->root[n]) shade(m->root[n]);
        /* What it marked by itself. */
        while (m->count) stack[height++] = m->shaded[--m->count];
    }
}

/* Receives what there is of the barrier's messages; marks what was stored, if it is marking. How many there were. */
static long receive(int marking) {
    struct trommel_message m;
    long n = 0;
    if (mode != BY_QUERY) return 0;
    while (n < ROOM && trommel_receive(queue, &m)) {
        if (marking && !forgetful && is_object(m.word[0])) shade((ref)m.word[0]);
        n++;
    }
    figures.messages += n;
    return n;
}
static void pass_by(void) { receive(0); }

/* ---- The program stands still ---- */

static double stopped_at;
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Until then the queue is served: threads may wait for room in it. Whether no message is missing. */
static int stop_world(int marking) {
    stopped_at = now();
    heap.stop = 1;
    for (;;) {
        receive(marking);
        pthread_mutex_lock(&lock);
        int all = standing == running;
        pthread_mutex_unlock(&lock);
        if (all) break;
        sched_yield();
    }
    while (receive(marking)) {}
    int sound = 1;
    for (int k = 0; k < MUTATORS; k++) sound &= mutators[k].flushed || mutators[k].stores == 0;
    return sound;
}

static void start_world(void) {
    double took = now() - stopped_at;
    figures.paused += took, figures.pauses++;
    if (took > figures.longest) figures.longest = took;
    pthread_mutex_lock(&lock);
    heap.stop = 0;
    pthread_cond_broadcast(&go);
    pthread_mutex_unlock(&lock);
}

/* The oracle: with the program standing still, all that can be reached must be black. */
static uint8_t *seen;
static long reached;
static void reach(ref o) {
    uint8_t *mark = &seen[((char *)o - heap.cells) / GRANULE];
    if (*mark) return;
    *mark = 1, reached++;
    if (!is_object((uint64_t)o) || *colour_of(o) != live || o->check != ALIVE) {
        if (figures.lost++ < 3) fprintf(stderr, "cycle %ld: object %p can be reached and is not marked\n", heap.cycles, (void *)o);
        if (!is_object((uint64_t)o)) return;
        /* The program goes on with it. */
        __atomic_store_n(colour_of(o), live, __ATOMIC_RELAXED);
    }
    stack[height++] = o;
}
static void check(void) {
    long cells = heap.blocks * BLOCK / GRANULE, marked = 0;
    madvise(seen, cells, MADV_DONTNEED);
    reached = 0;
    for (long n = 0; n < cells; n++) marked += heap.colour[n] == live;
    for (int n = 0; n < GLOBALS; n++) if (globals[n]) reach(globals[n]);
    for (int k = 0; k < MUTATORS; k++)
        for (int n = 0; n < ROOTS; n++) if (mutators[k].root[n]) reach(mutators[k].root[n]);
    while (height) {
        ref o = stack[--height];
        for (uint32_t n = 0; n < o->fields; n++) if (o->field[n]) reach(o->field[n]);
    }
    figures.checked++, figures.reachable += reached, figures.marked += marked;
}

/* ---- Cycles ---- */

static void mark_concurrently(void) {
    stop_world(0);
    heap.marking = mode == COMPILED;
    shade_roots();
    start_world();
    while (trace(4096), receive(1) || height) {}
    int sound = stop_world(1);
    shade_roots();
    trace(-1);
    heap.marking = 0;
    if (sound) return;
    /* Stores were not seen: Trommel has detached the program. All is marked again, now and from here on. */
    trommel_close(QUEUE);
    mode = STOPPED;
    for (long n = 0; n < heap.blocks * BLOCK / GRANULE; n++) if (heap.colour[n] == live) heap.colour[n] = dead;
    shade_roots();
    trace(-1);
}

static void cycle(void) {
    dead = heap.fresh, live = 3 - dead;
    if (mode == STOPPED) {
        stop_world(0);
        shade_roots();
        trace(-1);
    } else {
        mark_concurrently();
    }
    if (checking) check();
    heap.fresh = live;
    heap.taken = 0;
    start_world();
    long left = heap_sweep(dead, pass_by);
    heap.live = left;
    if (left > heap.blocks * BLOCK / 5 * 2) heap.overflows++;
    heap.cycles++;
}

/* The barrier that there is. By query: if a store of a reference comes as a message. */
static enum mode choose(void) {
#ifdef BARRIER
    return COMPILED;
#endif
    struct trommel_message m;
    static ref to;
    ref what = (ref)(uintptr_t)0x1234560;
    queue = aligned_alloc(64, TROMMEL_QUEUE_BYTES(ROOM));
    if (!queue || trommel_open(queue, QUEUE, ROOM) != TROMMEL_DONE) return STOPPED;
    heap_store(&to, what);
    if (trommel_receive(queue, &m) && m.word[0] == (uint64_t)what) return BY_QUERY;
    trommel_close(QUEUE);
    return STOPPED;
}

static void *collect(void *argument) {
    mode = choose();
    ready = 1;
    while (!finish) {
        /* Often, where each is checked. */
        long enough = heap.blocks * BLOCK / (checking ? 64 : 4);
        if (heap.taken > enough || heap.cycles < heap.wanted) cycle();
        /* Nobody hurries: who finds no room in the queue waits so long. */
        else receive(0), usleep(200);
    }
    return argument;
}

void collector_start(void) {
    long cells = heap.blocks * BLOCK / GRANULE;
    stack = mmap(0, cells * sizeof(ref), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    seen = mmap(0, cells, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_create(&thread, 0, collect, 0);
    while (!ready) usleep(100);
}

void collector_end(void) {
    finish = 1;
    pthread_join(thread, 0);
}
