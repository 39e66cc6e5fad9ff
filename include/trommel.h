/* What a program can tell Trommel, and ask it, while it runs under it.
 *
 * Nothing needs to be linked. Each request is one instruction that does nothing: an eight-byte NOP with
 * an address of its own. Trommel's translator recognises it. Natively a request costs a few cycles, and
 * its answer is 0. `trommel help aware` has more.
 *
 *   if (trommel_present()) ...
 *   trommel_hot(&hot_function, (char *)&hot_function + 512);
 *
 * Ranges are of addresses, the end not included. The interface is for Linux on x86-64. Elsewhere all
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
#define TROMMEL_WRONG -2   /* a range that ends before it starts, memory that cannot be written, a queue that is not open, a signal without handler */
#define TROMMEL_UNASKED -3 /* no query of this run sends to the queue, or interrupts; the run has no queries that may change */
#define TROMMEL_BUSY -4    /* the queue is open already, or too many others are; the thread has asked for other queries, and is in a signal handler */
#define TROMMEL_REFUSED -5 /* the queries are refused, and the reason was written */

/* Work of the engine so far in this process. */
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

/* A candidate of the last interval of a thread: an event that was frequent in it. */
struct trommel_last_candidate {
    uint64_t at;       /* address of the instruction */
    uint64_t value;    /* address that a branch or call went to, or any other value */
    uint64_t count;    /* its events in the interval */
    uint64_t kind;     /* 0 edge, 1 call, 2 value, 4 type */
    uint64_t interval; /* number of the interval, from 1 */
    uint64_t events;   /* all events of the interval */
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
    TROMMEL_CHANGED = 9,
    TROMMEL_OPEN = 10,
    TROMMEL_CLOSE = 11,
    TROMMEL_FLUSH = 12,
    TROMMEL_INTERRUPTS = 13,
    TROMMEL_CANDIDATES = 14,
    TROMMEL_POST = 15
};

static inline long trommel_request(enum trommel_number number, uintptr_t a, uintptr_t b)
{
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__)
    long answer = TROMMEL_ABSENT;
    uint64_t request = (uint64_t)TROMMEL_VERSION << 32 | (uint64_t)number;
    /* A note, by which `trommel run` attaches to the program at its first instruction. Then
     * nop dword ptr [rax + rax + 0x4c4d5254] */
    __asm__ volatile(".pushsection .note.trommel, \"a\", @note\n\t"
                     ".balign 4\n\t"
                     ".long 8, 4, 1\n\t"
                     ".asciz \"Trommel\"\n\t"
                     ".long 1\n\t"
                     ".popsection\n\t"
                     ".byte 0x0f, 0x1f, 0x84, 0x00, 0x54, 0x52, 0x4d, 0x4c"
                     : "+a"(answer)
                     : "D"(request), "S"(a), "d"(b)
                     : "memory");
    return answer;
#else
    (void)number, (void)a, (void)b;
    return TROMMEL_ABSENT;
#endif
}

/* Version that Trommel knows, or 0. */
static inline long trommel_present(void) { return trommel_request(TROMMEL_PRESENT, 0, 0); }

/* Code in this range is hot. Traces that start there are made sooner. */
static inline long trommel_hot(const void *from, const void *to)
{
    return trommel_request(TROMMEL_HOT, (uintptr_t)from, (uintptr_t)to);
}

/* Code in this range is generated at run time and changed often. It is compared when it is entered, and
 * stores beside it cost nothing. */
static inline long trommel_jit(const void *from, const void *to)
{
    return trommel_request(TROMMEL_JIT, (uintptr_t)from, (uintptr_t)to);
}

/* Memory in this range is also accessed by others than this program's threads. From here on no load or
 * store is optimised away. */
static inline long trommel_volatile(const void *from, const void *to)
{
    return trommel_request(TROMMEL_VOLATILE, (uintptr_t)from, (uintptr_t)to);
}

/* Code in this range has changed. Needed only where another process, io_uring or a device has written it.
 * Stores and system calls of this process are seen anyway. */
static inline long trommel_changed(const void *from, const void *to)
{
    return trommel_request(TROMMEL_CHANGED, (uintptr_t)from, (uintptr_t)to);
}

/* Nothing is observed from here on: no events are collected, no queries asked, and no traces started. This thread
 * stops at once, others when they leave the piece of code that they are in. Existing traces stay. The report says so. */
static inline long trommel_stop(void) { return trommel_request(TROMMEL_STOP, 0, 0); }

/* Events are collected, queries asked and traces started again, as at the start of the program. */
static inline long trommel_start(void) { return trommel_request(TROMMEL_START, 0, 0); }

/* The process runs natively from here on, for good. */
static inline long trommel_leave(void) { return trommel_request(TROMMEL_LEAVE, 0, 0); }

/* Fills in what the engine has done so far. */
static inline long trommel_counts(struct trommel_counts *counts)
{
    return trommel_request(TROMMEL_COUNTS, (uintptr_t)counts, sizeof *counts);
}

/* Fills in candidates of the last interval of this thread, the most frequent first, in room for so many. Returns how many there
 * are, also of those that there is no room for. 0 natively, without an interval profiler in generated code, and before an interval has
 * ended since the thread asked for the first time. */
static inline long trommel_candidates(struct trommel_last_candidate *last, size_t room)
{
    return trommel_request(TROMMEL_CANDIDATES, (uintptr_t)last, room * sizeof *last);
}

/* A query that says `interrupt` sends this signal to the thread that has executed the instruction. The handler runs before
 * that thread's next instruction, unless the thread blocks the signal. It finds the record's first word in si_value. The program
 * must have a handler for the signal. SIGRTMIN to SIGRTMAX lose none. 0: interrupts are Trommel's again, as in a child made by fork. */
static inline long trommel_interrupts(int signal) { return trommel_request(TROMMEL_INTERRUPTS, (uintptr_t)signal, 0); }

/* A request about queries: addresses of texts, and their bytes. */
struct trommel_posting {
    uint64_t name, name_bytes; /* of what is loaded, or the name or queue of what is removed: 1 to 64 bytes */
    uint64_t text, text_bytes; /* the queries, 16000 bytes at most; 0: to remove */
    uint64_t error, room;      /* where the reason of a refusal is written to, and a 0 after it */
};

static inline size_t trommel_length(const char *text)
{
    size_t n = 0;
    while (text != NULL && text[n] != 0) n++;
    return n;
}

/* Loads queries for this run, by a name: its other processes are asked them, too. They are active some milliseconds later. Where
 * they are refused (TROMMEL_REFUSED), the reason is put in `error`, which has room for so many bytes. */
static inline long trommel_load_queries(const char *name, const char *text, char *error, size_t room)
{
    struct trommel_posting posting = {(uintptr_t)name, trommel_length(name), (uintptr_t)text, trommel_length(text), (uintptr_t)error, room};
    return trommel_request(TROMMEL_POST, (uintptr_t)&posting, sizeof posting);
}

/* Removes the queries of a name, or those that send to a queue. */
static inline long trommel_remove_queries(const char *name)
{
    struct trommel_posting posting = {(uintptr_t)name, trommel_length(name), 0, 0, 0, 0};
    return trommel_request(TROMMEL_POST, (uintptr_t)&posting, sizeof posting);
}

/* Queues of relational queries that the program serves itself (`trommel help aware`).
 *
 *   static struct trommel_queue *queue;            TROMMEL_QUEUE_BYTES(1024) bytes, of aligned_alloc(64, ...)
 *   if (trommel_open(queue, 3, 1024) == TROMMEL_DONE)
 *       do {
 *           struct trommel_message m;
 *           while (trommel_receive(queue, &m)) serve(&m);
 *       } while (trommel_wait(queue, 1000));
 *
 * The thread that opens a queue serves it. Nothing else calls trommel_receive and trommel_wait for it. */

struct trommel_message {
    uint64_t word[7]; /* of the record, as the query collects them; the others are 0 */
    uint64_t ready;   /* bits 0-7: the queue; 8-15: the instruction that sent it; 16-19: words collected; 24-28: it stands
                         for two to the power of this executions where the query says `every auto`, else 0; 31: set;
                         32-63: the thread that sent it, as the field `thread` numbers it */
};

/* Head of a queue, before its messages. */
struct trommel_queue {
    uint64_t number;   /* of the queue */
    uint64_t messages; /* that there is room for: a power of two, 2 to 65536 */
    uint64_t pad0[6];
    uint64_t read;   /* messages read so far: the service thread's */
    uint32_t sleeps; /* the service thread sleeps upon this word */
    uint32_t pad1[13];
    uint32_t state;   /* Trommel's: TROMMEL_QUEUE_OPEN, TROMMEL_QUEUE_CLOSED, or 0 */
    uint32_t waiting; /* 1: threads sleep upon this word until there is room; the service thread clears it */
    uint64_t lost;    /* Trommel's: messages that were dropped, as the queue was full */
    uint64_t pad2[6];
};

#define TROMMEL_QUEUE_OPEN 1
#define TROMMEL_QUEUE_CLOSED 2
#define TROMMEL_QUEUE_BYTES(messages) (sizeof(struct trommel_queue) + (messages) * sizeof(struct trommel_message))

/* Opens a queue for the calling thread to serve. What queries send to its number goes there, and not to Trommel. `queue` is
 * memory of TROMMEL_QUEUE_BYTES(messages) bytes, aligned to 64. */
static inline long trommel_open(struct trommel_queue *queue, unsigned number, unsigned messages)
{
    queue->number = number;
    queue->messages = messages;
    return trommel_request(TROMMEL_OPEN, (uintptr_t)queue, TROMMEL_QUEUE_BYTES((uintptr_t)messages));
}

/* Closes a queue: its messages go to Trommel again. After the return nothing writes to the memory. Any thread may call it. */
static inline long trommel_close(unsigned number) { return trommel_request(TROMMEL_CLOSE, number, 0); }

/* TROMMEL_DONE: all that the calling thread has sent to the queue since it was opened is there to be received, or was,
 * and nothing of it got lost. Any other answer: the queue is not open (any more), or there is no Trommel (any more). */
static inline long trommel_flush(unsigned number) { return trommel_request(TROMMEL_FLUSH, number, 0); }

/* 1 while messages may come. Those that have come can be received in any case. */
static inline int trommel_is_open(struct trommel_queue *queue)
{
    return __atomic_load_n(&queue->state, __ATOMIC_ACQUIRE) == TROMMEL_QUEUE_OPEN && trommel_present() != 0;
}

static inline void trommel_futex(uint32_t *word, long operation, long value, long milliseconds)
{
#if defined(__x86_64__) && defined(__LP64__) && defined(__linux__)
    long spec[2];
    long number = 202;
    register long *at __asm__("r10") = spec;
    register long r8 __asm__("r8") = 0;
    register long r9 __asm__("r9") = 0;
    spec[0] = milliseconds / 1000;
    spec[1] = milliseconds % 1000 * 1000000;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(word), "S"(operation), "d"(value), "r"(at), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#else
    (void)word, (void)operation, (void)value, (void)milliseconds;
#endif
}

/* Wakes threads that wait for room. */
static inline void trommel_make_room(struct trommel_queue *queue)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&queue->waiting, __ATOMIC_RELAXED) != 0) {
        __atomic_store_n(&queue->waiting, 0, __ATOMIC_SEQ_CST);
        trommel_futex(&queue->waiting, 1, 0x7fffffff, 0);
    }
}

static inline struct trommel_message *trommel_next(struct trommel_queue *queue)
{
    return (struct trommel_message *)(queue + 1) + (queue->read & (queue->messages - 1));
}

/* The next message, if there is one: 1, else 0. */
static inline int trommel_receive(struct trommel_queue *queue, struct trommel_message *message)
{
    struct trommel_message *next = trommel_next(queue);
    uint64_t ready = __atomic_load_n(&next->ready, __ATOMIC_ACQUIRE), read;
    int n;
    if (ready == 0) {
        trommel_make_room(queue);
        return 0;
    }
    for (n = 0; n < 7; n++) message->word[n] = next->word[n];
    message->ready = ready;
    __atomic_store_n(&next->ready, 0, __ATOMIC_RELAXED);
    read = queue->read + 1;
    __atomic_store_n(&queue->read, read, __ATOMIC_RELEASE);
    if ((read & (queue->messages / 2 - 1)) == 0) trommel_make_room(queue);
    return 1;
}

/* Sleeps until there is a message, for so long at most. 0: there is none, and no more will come. */
static inline int trommel_wait(struct trommel_queue *queue, long milliseconds)
{
    uint64_t *ready = &trommel_next(queue)->ready;
    while (milliseconds > 0) {
        long nap = milliseconds < 50 ? milliseconds : 50;
        trommel_make_room(queue);
        __atomic_store_n(&queue->sleeps, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(ready, __ATOMIC_SEQ_CST) != 0 || !trommel_is_open(queue)) break;
        trommel_futex(&queue->sleeps, 0, 1, nap);
        milliseconds -= nap;
    }
    __atomic_store_n(&queue->sleeps, 0, __ATOMIC_RELAXED);
    /* The queue first: what was sent before it was closed is there then. */
    return trommel_is_open(queue) || __atomic_load_n(ready, __ATOMIC_ACQUIRE) != 0;
}

#ifdef __cplusplus
}
#endif

#endif
