/* A small heap for programs of several threads: cells of three sizes, collected by mark and sweep beside the program.
 *
 * Problem.  A collector that marks while the program runs must see each reference that is stored in the heap meanwhile, or it
 * loses objects: one that is moved from where the collector has not looked yet to where it has looked already, it never meets.
 *
 * Strategy.  Incremental update (Dijkstra; Wilson's survey, section 3.3): what is stored is marked. Every store of a reference in the heap
 * goes through heap_store(). How the collector learns of it is chosen when, and where, the program is run:
 *
 *   by a query     Built without BARRIER, heap_store() is one instruction. Under `trommel record -q gc.rpa` a query on that
 *                  store sends what is stored to a queue, which the collector serves (Heil and Smith, MICRO 2000, Figure 2c).
 *   compiled in    With -DBARRIER heap_store() looks whether the collector is marking, and marks by itself.
 *   not at all     Without BARRIER and without Trommel: the program stands still while it is marked.
 *
 * Invariants.
 *   - A reference is in the heap, in a mutator's roots, or in the globals; elsewhere only between two safepoints. Roots and
 *     globals are read while the program stands still, at the start of marking and again at its end.
 *   - While marking, an object is white (the colour `dead`) or black (`live`). A black one was traced, or is on the mark stack.
 *     New ones are white until the end of marking, then black.
 *   - At the end of marking every mutator stands at a safepoint, where it has flushed the queue, and the queue is empty: so each
 *     store was seen, and what is still white cannot be reached.
 *   - A mutator that may wait for room in the queue (which only heap_store() does) holds no lock: the collector needs it.
 */
#ifndef HEAP_H
#define HEAP_H

#include <pthread.h>
#include <stdint.h>

typedef struct object *ref;
struct object {
    uint32_t fields; /* references */
    uint32_t check;  /* ALIVE, or DEAD in a cell that is free */
    uint64_t number;
    ref field[];
};
enum { ALIVE = 0x600d0b1e, DEAD = 0xdeadce11 };

enum { CLASSES = 3, ROOTS = 32, GLOBALS = 32, MUTATORS = 8, QUEUE = 3 };
enum { GRANULE = 32, BLOCK = 1 << 16 };

/* Colours of cells: 0 is free, 1 and 2 are white and black in turn. */
enum { FREE = 0 };

struct mutator {
    ref root[ROOTS];
    ref free[CLASSES]; /* cells for this thread */
    uint64_t allocated, stores;
    ref *shaded; /* marked by the compiled-in barrier, to be traced */
    long count;
    int flushed; /* at this safepoint all that was stored had been sent */
};

extern struct mutator mutators[MUTATORS];
extern ref globals[GLOBALS];

/* Everything about the heap that threads share. */
struct heap {
    char *cells;
    uint8_t *colour; /* of each granule at which a cell starts */
    uint8_t *class;  /* of each block, plus one; 0 when it is not in use */
    long blocks, used;
    ref free[CLASSES];     /* chains of free cells, of up to 64: the next chain is in the second field */
    pthread_mutex_t lock;  /* of the lines above */
    uint8_t fresh;         /* colour of new objects; changes while mutators stand still */
    volatile int marking;  /* for the compiled-in barrier */
    volatile int stop;     /* mutators are to stand still at their next safepoint */
    volatile long taken;   /* bytes handed to mutators since the last collection */
    volatile long live;    /* bytes that the last collection left */
    volatile long cycles;  /* collections */
    volatile long wanted;  /* as many at least */
    volatile int overflows; /* times that the program is to forget what it has */
};
extern struct heap heap;

/* heap.c */
void heap_make(long bytes);
ref heap_new(struct mutator *, int class); /* may be a safepoint */
void heap_store(ref *to, ref what);
long heap_sweep(uint8_t dead, void (*meanwhile)(void));
static inline uint8_t *colour_of(ref o) { return &heap.colour[((char *)o - heap.cells) / GRANULE]; }
int is_object(uint64_t word);

/* collect.c */
enum mode { STOPPED, COMPILED, BY_QUERY };
extern enum mode mode;
extern int checking, forgetful;
extern struct figures { long checked, lost, messages, reachable, marked, pauses; double paused, longest; } figures;
void collector_start(void);
void collector_end(void);
void mutator_begin(struct mutator *);
void mutator_end(struct mutator *);
void safepoint_slow(struct mutator *);
void wait_for_cycle(struct mutator *);
static inline void safepoint(struct mutator *m) { if (heap.stop) safepoint_slow(m); }

#endif
