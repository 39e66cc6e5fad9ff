/* Cells: how they are handed out, stored to, and swept. */
#define _GNU_SOURCE
#include "heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct heap heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .fresh = 1};
struct mutator mutators[MUTATORS];
ref globals[GLOBALS];

static const int size[CLASSES] = {32, 64, 128};
enum { CHAIN = 64 };

static void *memory(long bytes) {
    void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

void heap_make(long bytes) {
    heap.blocks = bytes / BLOCK;
    heap.cells = memory(heap.blocks * BLOCK);
    heap.colour = memory(heap.blocks * BLOCK / GRANULE);
    heap.class = memory(heap.blocks);
}

/* Whether a word is the address of an object, whoever says so. */
int is_object(uint64_t word) {
    uint64_t at = word - (uint64_t)heap.cells;
    if (at >= (uint64_t)(heap.blocks * BLOCK)) return 0;
    int class = heap.class[at / BLOCK];
    return class != 0 && at % BLOCK % size[class - 1] == 0 && heap.colour[at / GRANULE] != FREE;
}

/* The store of a reference in the heap. */
#ifdef BARRIER
__attribute__((noinline)) static void shade(ref what) {
    extern __thread struct mutator *self;
    uint8_t dead = heap.fresh, *colour = colour_of(what);
    if (__atomic_compare_exchange_n(colour, &dead, 3 - dead, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        self->shaded[self->count++] = what;
}
__attribute__((noinline)) void heap_store(ref *to, ref what) {
    __atomic_store_n(to, what, __ATOMIC_RELEASE);
    if (heap.marking && what != 0) shade(what);
}
#else
__attribute__((noinline)) void heap_store(ref *to, ref what) { __atomic_store_n(to, what, __ATOMIC_RELEASE); }
#endif

/* Makes a chain of a block's cells, with the lock held. */
static ref cut(int class) {
    if (heap.used == heap.blocks) return 0;
    char *block = heap.cells + heap.used * BLOCK;
    __atomic_store_n(&heap.class[heap.used++], class + 1, __ATOMIC_RELEASE);
    ref first = 0;
    for (int at = BLOCK - size[class]; at >= 0; at -= size[class]) {
        ref o = (ref)(block + at);
        o->check = DEAD, o->field[0] = first, first = o;
    }
    return first;
}

static int refill(struct mutator *m, int class) {
    pthread_mutex_lock(&heap.lock);
    ref chain = heap.free[class];
    long bytes = CHAIN * size[class];
    if (chain) heap.free[class] = chain->field[1];
    else if ((chain = cut(class))) bytes = BLOCK;
    heap.taken += bytes;
    pthread_mutex_unlock(&heap.lock);
    m->free[class] = chain;
    return chain != 0;
}

ref heap_new(struct mutator *m, int class) {
    /* What a collection frees, others may take before this thread gets there, but not each time. */
    enum { PATIENCE = 200 };
    for (int tries = 0; !m->free[class] && !refill(m, class); tries++) {
        if (tries == PATIENCE) fprintf(stderr, "the heap is full\n"), exit(2);
        wait_for_cycle(m);
    }
    ref o = m->free[class];
    m->free[class] = o->field[0];
    int fields = (size[class] - (int)sizeof *o) / (int)sizeof(ref);
    for (int n = 0; n < fields; n++) o->field[n] = 0;
    o->fields = fields, o->check = ALIVE, o->number = m->allocated++;
    /* The collector finds it by its colour, with its fields. */
    __atomic_store_n(colour_of(o), heap.fresh, __ATOMIC_RELEASE);
    return o;
}

/* Frees all cells of a colour, calling `meanwhile` now and then; bytes that are left in use. */
long heap_sweep(uint8_t dead, void (*meanwhile)(void)) {
    long left = 0;
    for (long block = 0; block < __atomic_load_n(&heap.used, __ATOMIC_ACQUIRE); block++) {
        int class = __atomic_load_n(&heap.class[block], __ATOMIC_ACQUIRE) - 1;
        ref chain = 0, chains = 0, last = 0;
        long count = 0;
        for (int at = 0; at + size[class] <= BLOCK; at += size[class]) {
            ref o = (ref)(heap.cells + block * BLOCK + at);
            uint8_t colour = __atomic_load_n(colour_of(o), __ATOMIC_ACQUIRE);
            if (colour != dead) {
                if (colour != FREE) left += size[class];
                continue;
            }
            o->check = DEAD;
            for (uint32_t n = 0; n < o->fields; n++) o->field[n] = (ref)(uintptr_t)0xdeaddeaddead0000;
            __atomic_store_n(colour_of(o), FREE, __ATOMIC_RELEASE);
            o->field[0] = chain, chain = o;
            if (++count % CHAIN == 0) {
                chain->field[1] = chains, chains = chain, chain = 0;
                if (!last) last = chains;
            }
        }
        if (chain) {
            chain->field[1] = chains, chains = chain;
            if (!last) last = chains;
        }
        if (chains) {
            pthread_mutex_lock(&heap.lock);
            last->field[1] = heap.free[class], heap.free[class] = chains;
            pthread_mutex_unlock(&heap.lock);
        }
        meanwhile();
    }
    return left;
}
