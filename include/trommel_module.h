/* Customisation modules: plug-ins that choose what windows capture of instructions, and what is profiled.
 *
 *   trommel record --budget 3 --module-lib ./strides.so -- ./app
 *   trommel record --budget 3 --module-lib ./strides.so:argument -- ./app
 *
 * This is the customised value profiling of *Value Sampling*, section 2.4 (`trommel help papers`), in three steps:
 *
 *   1. What is captured. A table has, for each class of instructions, which facts are wanted of each execution in a window: operands,
 *      result, address, outcome. Instructions of a class of which nothing is wanted are left alone, and cost nothing.
 *   2. What is profiled. Each window's instructions of which something was wanted are handed over as a sequence, in the order in which
 *      their thread executed them; the module makes pairs of an instruction and a value of them, by whatever means. Trommel keeps
 *      the most frequent values of each instruction (a hotlist) with shares and error limits, as it does for values of loads.
 *   3. How it is shown. When the program has ended the module formats the values that are left; the texts are in the profile, so the
 *      library is not needed to look at it.
 *
 * The library exports one function, trommel_module(), which returns a table that lives as long as the library does. It is loaded and
 * called in a process of its own. If it crashes, hangs or breaks a rule, that process is ended. The observed program does not notice.
 * What was collected is in the profile, and the report says what happened. `trommel help modules` has the rules and limits.
 *
 * Structures that Trommel passes say their size first, in bytes; later versions of Trommel may add members after the ones known
 * here. Members of a table that is smaller than today's are taken to be 0. The interface is for Linux on x86-64.
 */
#ifndef TROMMEL_MODULE_H
#define TROMMEL_MODULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A library of another one is refused. */
#define TROMMEL_MODULE_VERSION 1

/* Classes of instructions: those of relational queries, `trommel help query`, in the same order. Of several that fit an instruction is of the first of:
 * branch, jump, store, load, multiply, float, ALU. */
enum trommel_class {
    TROMMEL_JUMP,     /* jmp, call, ret */
    TROMMEL_BRANCH,   /* jcc, loop, jrcxz */
    TROMMEL_LOAD,     /* reads memory and does not write it */
    TROMMEL_STORE,    /* writes memory */
    TROMMEL_ALU,      /* integer arithmetic and logic, moves between registers, lea, cmov, setcc */
    TROMMEL_MULTIPLY, /* mul, imul, div, idiv, of registers */
    TROMMEL_FLOAT,    /* x87, MMX, vectors */
    TROMMEL_CLASSES
};

/* What is captured of a class. Any of them captures the instruction itself, too. */
#define TROMMEL_INSTRUCTION 1u /* that it was executed */
#define TROMMEL_OPERANDS 2u    /* op: what it reads, `trommel help query` has which by class */
#define TROMMEL_RESULT 4u      /* result: what it writes to a register, the loaded value, or the address executed next */
#define TROMMEL_ADDRESS 8u     /* address: of its memory operand */
#define TROMMEL_OUTCOME 16u    /* taken: whether a branch was */

/* What values are. */
#define TROMMEL_NUMBERS 0u /* numbers, or what format() makes of them; without it hexadecimal */
#define TROMMEL_PLACES 1u  /* addresses of code in the process: reports name them */

/* An instruction of the program. */
struct trommel_instruction {
    uint32_t size;
    uint32_t number;      /* the same for all executions of it, from 0 on, in the order in which they were met */
    uint64_t pc;          /* where it was in memory */
    const uint8_t *code;  /* its bytes */
    const char *mnemonic; /* "add", in lower case */
    uint8_t length;       /* number of bytes */
    uint8_t kind;         /* enum trommel_class */
};

/* An execution. What was not asked for is 0. */
struct trommel_tuple {
    const struct trommel_instruction *instruction; /* valid until destroy() returns */
    uint64_t op[3];
    uint64_t result;
    uint64_t address;
    uint64_t taken; /* 1 or 0 */
};

/* What one thread executed in one window. */
struct trommel_window {
    uint32_t size;
    uint32_t pid;
    uint32_t thread; /* by number */
    uint32_t stride; /* bytes from one tuple to the next */
    size_t count;
    const struct trommel_tuple *tuples; /* in order, valid during the call */
};

/* What Trommel does for an instance, within calls of the instance's functions only. */
struct trommel_module_host {
    uint32_t size;
    uint32_t version;
    /* In window(): a pair. `pc` is of an instruction of this window, or the module fails. Returns 0, or -1 where there are
     * too many pairs: the module fails then, too. */
    int (*pair)(const struct trommel_module_host *host, uint64_t pc, uint64_t value);
    /* Says why the function that is running fails, in UTF-8; the text is copied. */
    void (*fail)(const struct trommel_module_host *host, const char *text);
};

struct trommel_module {
    uint32_t version; /* TROMMEL_MODULE_VERSION */
    uint32_t size;    /* sizeof(struct trommel_module) */
    /* What the pairs are called in reports, such as "strides of loads", in UTF-8. */
    const char *title;
    /* TROMMEL_NUMBERS or TROMMEL_PLACES. */
    uint32_t values;
    /* What is captured, for each class; of one at least something. */
    uint32_t capture[TROMMEL_CLASSES];
    /* An instance, for a process of the run, or NULL when there can be none. `host` is valid until destroy() returns, `argument`
     * until create() does; it is empty where none was given. */
    void *(*create)(const struct trommel_module_host *host, const char *argument);
    /* A window. Other than 0: the module fails. */
    int (*window)(void *instance, const struct trommel_window *window);
    /* May be NULL. Writes a value of an instruction's as text that ends in 0, in `size` bytes at most. Other than 0: it has no text,
     * and is shown as if there were no format(). */
    int (*format)(void *instance, const struct trommel_instruction *instruction, uint64_t value, char *text, size_t size);
    /* The last call, for each instance that was created. */
    void (*destroy)(void *instance);
};

/* What a library exports. */
__attribute__((visibility("default"))) const struct trommel_module *trommel_module(void);

#ifdef __cplusplus
}
#endif

#endif
