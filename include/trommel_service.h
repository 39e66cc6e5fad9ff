/* Services: libraries that are given the messages of relational queries, or the intervals of an interval profiler, while
 * a program runs.
 *
 *   trommel record -q edges.rpa --service 1=./edges.so -- ./app
 *   trommel record -q edges.rpa --service 1=./edges.so:argument -- ./app
 *   trommel record -c 'M4[10k,1%]2048' --service ./hot.so -- ./app
 *
 * The library exports one function, trommel_service(), which returns a table that lives as long as the
 * library does. Trommel makes an instance for each process of the run, gives it each message for its queue and each
 * interval that has ended, in the order of each thread, and lets it write the rows of a table when the process has ended; the table is
 * in the profile, and the report shows it. What is promised and what must not be done is in `trommel help query`.
 *
 * Structures that Trommel passes say their size first, in bytes; later versions of Trommel may add members
 * after the ones known here. The interface is for Linux on x86-64.
 */
#ifndef TROMMEL_SERVICE_H
#define TROMMEL_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A library of another one is refused. */
#define TROMMEL_SERVICE_VERSION 1

/* Words of a message, and columns of a table, at most. */
#define TROMMEL_WORDS 7

struct trommel_message {
    uint32_t size;
    uint32_t pid;    /* process that sent it */
    uint32_t thread; /* its thread, by number */
    uint8_t queue;
    uint8_t instruction; /* query instruction that sent it, see `trommel query asm` */
    uint8_t words;       /* number of words */
    uint8_t addresses;   /* bit n: word n is an address of code */
    uint64_t word[TROMMEL_WORDS];
    uint64_t stands_for; /* executions: N of `every N`, the rate in force under `every auto`, else 1 */
    const char *load;    /* name of the queries that sent it, as `trommel query list` shows it. Not there where `size` is too small for it */
};

/* Kinds of events, as in `trommel help events`. There may be others. */
#define TROMMEL_KIND_EDGE 0
#define TROMMEL_KIND_CALL 1
#define TROMMEL_KIND_VALUE 2
#define TROMMEL_KIND_TYPE 4
#define TROMMEL_KIND_PATH 7

/* A candidate of an interval: a tuple that was frequent enough in it. */
struct trommel_candidate {
    uint64_t word[2];  /* the instruction, and where control went or the value */
    uint64_t count;    /* its events, as the profiler counted them */
    uint32_t kind;     /* TROMMEL_KIND_... */
    uint32_t places;   /* bit n: word n is a place, as place() returns it */
};

/* An interval that has ended. */
struct trommel_interval {
    uint32_t size;
    uint32_t pid;      /* process whose interval it is */
    uint32_t thread;   /* its thread, by number; 0: one profiler counts all threads of the process */
    uint32_t stride;   /* bytes from one candidate to the next */
    uint64_t number;   /* from 1, without a gap, of each thread */
    uint64_t start;    /* events of the thread before it */
    uint64_t events;   /* events of the interval */
    uint64_t count;    /* number of candidates */
    const struct trommel_candidate *candidates; /* the most frequent first */
};

/* What Trommel does for an instance, within calls of the instance's functions only. */
struct trommel_host {
    uint32_t size;
    uint32_t version;
    /* Place of an address of code in the process: what is there at this point of the run, as a number that stays
     * valid when the code goes. Meant for message(); in create() nothing is anywhere. */
    uint64_t (*place)(const struct trommel_host *host, uint64_t address);
    /* In create(): titles of the columns of rows, 1 to TROMMEL_WORDS of them; bit n of `places`: column n has
     * places. Returns 0, or -1 when they were given before or cannot be titles: see `trommel help query`. */
    int (*columns)(const struct trommel_host *host, const char *const *titles, size_t count, uint32_t places);
    /* Adds `count` to the row with these words, one for each column. Returns 0; 1 when the row was not kept, there
     * being too many; -1 without columns. */
    int (*row)(const struct trommel_host *host, const uint64_t *words, uint64_t count);
    /* Says why the function that is running fails, in UTF-8; the text is copied. */
    void (*fail)(const struct trommel_host *host, const char *text);
    /* What a word of the messages that a query instruction sends is called, "pc" or "res1"; valid until destroy() returns. NULL where
     * there is none. Not there where `size` is too small for it. */
    const char *(*field)(const struct trommel_host *host, uint32_t instruction, uint32_t word);
    /* Loads queries, as `trommel query load` does: `queries` is their text, and `name` is 1 to 64 of letters, digits, `.`, `_` and `-`.
     * They hold for all processes of the session, and begin soon after the function that calls this has returned. Returns 0, or -1
     * with the reason in `why`, which has room for so many bytes and may be NULL. Not there where `size` is too small for it. */
    int (*load)(const struct trommel_host *host, const char *name, const char *queries, char *why, size_t room);
    /* Removes queries by their name, NAME:N, or queue, as `trommel query remove` does. Returns as load(). */
    int (*remove)(const struct trommel_host *host, const char *what, char *why, size_t room);
    /* Path of the module of a place, valid until destroy() returns; in `address`, which may be NULL, the place's address as
     * `objdump -d` prints it. NULL: code of no file. */
    const char *(*module)(const struct trommel_host *host, uint64_t place, uint64_t *address);
};

struct trommel_service {
    uint32_t version; /* TROMMEL_SERVICE_VERSION */
    uint32_t size;    /* sizeof(struct trommel_service) */
    /* An instance, or NULL when there can be none. `host` is valid until destroy() returns, `argument` until
     * create() does; it is empty where none was given. */
    void *(*create)(const struct trommel_host *host, const char *argument);
    /* A message, valid during the call; none comes to a service without a queue. Other than 0: the instance fails, and is given no more. */
    int (*message)(void *instance, const struct trommel_message *message);
    /* The process has ended; not called for an instance that has failed. Other than 0: it fails. */
    int (*finish)(void *instance);
    /* The last call, for each instance that was created. */
    void (*destroy)(void *instance);
    /* May be NULL. A query has interrupted a thread: `message` is its record, of no queue. With `sync` the thread waits until this
     * returns. Other than 0: the instance fails. Called for all queries, whatever the queue of the instance. */
    int (*interrupt)(void *instance, const struct trommel_message *message, int sync);
    /* May be NULL. An interval of the profiler of `-c` has ended; it is valid during the call. Other than 0: the instance fails.
     * Called whatever the queue of the instance. */
    int (*interval)(void *instance, const struct trommel_interval *interval);
};

/* What a library exports. */
__attribute__((visibility("default"))) const struct trommel_service *trommel_service(void);

#ifdef __cplusplus
}
#endif

#endif
