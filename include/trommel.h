/* For programs that know of Trommel: what they can tell it, and ask it, while they run under it.
 *
 * Nothing needs to be linked. Each request is one instruction that does nothing (an eight-byte NOP with
 * an address of its own); Trommel's translator knows it when it comes by. Without Trommel, or when it has
 * let the program go, a request costs a few cycles and its answer is 0.
 *
 *   if (trommel_present()) ...
 *   trommel_hot(&hot_function, (char *)&hot_function + 512);
 *
 * Ranges are of addresses, the end not included. The interface is for Linux on x86-64; elsewhere all
 * answers are 0.
 */
#ifndef TROMMEL_H
#define TROMMEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A request of a later one than Trommel knows is refused. */
#define TROMMEL_VERSION 1

/* Answers. */
#define TROMMEL_ABSENT 0   /* not under Trommel */
#define TROMMEL_DONE 1     /* done */
#define TROMMEL_UNKNOWN -1 /* Trommel does not know this request or version */
#define TROMMEL_WRONG -2   /* a range that ends before it starts, memory that cannot be written */

/* What the engine has done so far in this process. */
struct trommel_counts {
    uint64_t fragments;       /* pieces of code translated, traces not included */
    uint64_t traces;          /* traces made */
    uint64_t dispatches;      /* times that control left translated code */
    uint64_t indirect_misses; /* indirect branches among them */
    uint64_t links;           /* exits linked */
    uint64_t flushes;         /* times that everything translated was dropped */
    uint64_t cache_bytes;     /* bytes of translated code */
    uint64_t requests;        /* requests such as this one, which is the last */
};

enum trommel_number {
    TROMMEL_PRESENT = 1,
    TROMMEL_HOT = 2,
    TROMMEL_JIT = 3,
    TROMMEL_VOLATILE = 4,
    TROMMEL_STOP = 5,
    TROMMEL_START = 6,
    TROMMEL_LEAVE = 7,
    TROMMEL_COUNTS = 8,
    TROMMEL_CHANGED = 9
};

static inline long trommel_request(enum trommel_number number, uintptr_t a, uintptr_t b)
{
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__)
    long answer = TROMMEL_ABSENT;
    uint64_t request = (uint64_t)TROMMEL_VERSION << 32 | (uint64_t)number;
    /* nop dword ptr [rax + rax + 0x4c4d5254] */
    __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 0x54, 0x52, 0x4d, 0x4c"
                     : "+a"(answer)
                     : "D"(request), "S"(a), "d"(b)
                     : "memory");
    return answer;
#else
    (void)number, (void)a, (void)b;
    return TROMMEL_ABSENT;
#endif
}

/* The version that Trommel knows, or 0. */
static inline long trommel_present(void) { return trommel_request(TROMMEL_PRESENT, 0, 0); }

/* Code in this range is hot: traces that start there are made sooner. */
static inline long trommel_hot(const void *from, const void *to)
{
    return trommel_request(TROMMEL_HOT, (uintptr_t)from, (uintptr_t)to);
}

/* Code in this range is made while the program runs, and changed often: it is compared when it is entered, and
 * writing beside it costs nothing. */
static inline long trommel_jit(const void *from, const void *to)
{
    return trommel_request(TROMMEL_JIT, (uintptr_t)from, (uintptr_t)to);
}

/* Memory in this range is read or written by others than this program's threads: no load or store is
 * optimised away from here on. */
static inline long trommel_volatile(const void *from, const void *to)
{
    return trommel_request(TROMMEL_VOLATILE, (uintptr_t)from, (uintptr_t)to);
}

/* Code in this range is not what it was. To be told where no store of this process has changed it: another process,
 * io_uring or a device has. Stores and system calls are seen anyway. */
static inline long trommel_changed(const void *from, const void *to)
{
    return trommel_request(TROMMEL_CHANGED, (uintptr_t)from, (uintptr_t)to);
}

/* No events are collected from here on, by this thread at once, by others when they leave the piece of code that
 * they are in; the report says so. No traces are started, and those that are there stay. */
static inline long trommel_stop(void) { return trommel_request(TROMMEL_STOP, 0, 0); }

/* Events are collected again, as they are from the start of the program, and traces started. */
static inline long trommel_start(void) { return trommel_request(TROMMEL_START, 0, 0); }

/* The process runs natively from here on, for good. */
static inline long trommel_leave(void) { return trommel_request(TROMMEL_LEAVE, 0, 0); }

/* Fills in what the engine has done so far. */
static inline long trommel_counts(struct trommel_counts *counts)
{
    return trommel_request(TROMMEL_COUNTS, (uintptr_t)counts, sizeof *counts);
}

#ifdef __cplusplus
}
#endif

#endif
