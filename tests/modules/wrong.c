/* Customisation modules that are wrong in some way, one for each WRONG_... that is defined. Without one: how often each load was executed
 * in a window, as text, with what is promised checked. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <trommel_module.h>

struct wrong {
    const struct trommel_module_host *host;
    unsigned windows;
};

static void *create(const struct trommel_module_host *host, const char *argument) {
    struct wrong *wrong;
#ifdef WRONG_CREATE
    host->fail(host, "no luck today");
    return NULL;
#endif
#ifdef WRONG_SILENT
    return NULL;
#endif
    if (host->size < sizeof *host || host->version != TROMMEL_MODULE_VERSION || strcmp(argument, "a:b") != 0)
        return NULL;
    wrong = calloc(1, sizeof *wrong);
    wrong->host = host;
    return wrong;
}

static int window(void *instance, const struct trommel_window *window) {
    struct wrong *wrong = instance;
    const struct trommel_module_host *host = wrong->host;
    uint64_t pc = window->tuples[0].instruction->pc;
    if (window->size < sizeof *window || window->stride < sizeof(struct trommel_tuple) || window->count == 0)
        return -3;
    for (size_t n = 0; n < window->count; n++) {
        const struct trommel_tuple *tuple =
            (const struct trommel_tuple *)((const char *)window->tuples + n * window->stride);
        const struct trommel_instruction *load = tuple->instruction;
        if (load->size < sizeof *load || load->kind != TROMMEL_LOAD || load->length == 0 || load->length > 15 ||
            load->mnemonic[0] < 'a' || load->mnemonic[0] > 'z' || tuple->op[0] || tuple->result || tuple->taken)
            return -4;
    }
    wrong->windows++;
    printf("this is not the program's output\n");
    fflush(stdout);
    if (wrong->windows < 10) {
        host->pair(host, pc, 7);
        return 0;
    }
#if defined WRONG_SEGV
    *(volatile int *)8 = 1;
#elif defined WRONG_ABORT
    abort();
#elif defined WRONG_EXIT
    exit(0);
#elif defined WRONG_LOOP
    for (volatile int forever = 1; forever;)
        ;
#elif defined WRONG_SLEEP
    for (;;)
        pause();
#elif defined WRONG_CLOSE
    for (int n = 3; n < 100; n++)
        close(n);
    for (;;)
        pause();
#elif defined WRONG_NOISE
    /* To whoever is at the other end of what it has inherited. */
    for (int n = 3; n < 100; n++)
        if (write(n, "\377\377\377\377 this is not a frame", 25) > 0)
            break;
#elif defined WRONG_ELSEWHERE
    host->pair(host, pc, 7);
    host->pair(host, 0x1234, 7);
#elif defined WRONG_MANY
    for (unsigned n = 0; n < 1000000; n++)
        if (host->pair(host, pc, n) != 0)
            return 0;
    return -5;
#elif defined WRONG_RETURN
    return 17;
#elif defined WRONG_FAIL
    host->fail(host, "ten are enough");
    return -1;
#elif defined WRONG_MEMORY
    for (;;) {
        char *much = malloc(64 << 20);
        *(volatile char *)much = 1;
    }
#endif
    host->pair(host, pc, 7);
    return 0;
}

static int format(void *instance, const struct trommel_instruction *load, uint64_t value, char *text, size_t size) {
    (void)instance, (void)load, (void)value, (void)text, (void)size;
#ifdef WRONG_FORMAT
    *(volatile int *)8 = 1;
#endif
#ifdef WRONG_LONG
    memset(text, 'x', size);
    return 0;
#endif
    return snprintf(text, size, "seven\n") < 0;
}

static void destroy(void *instance) {
    free(instance);
}

#ifdef WRONG_SYMBOL
#define EXPORTED another
__attribute__((visibility("default"))) const struct trommel_module *another(void);
#else
#define EXPORTED trommel_module
#endif

#ifdef WRONG_LOAD
__attribute__((constructor)) static void at_once(void) {
    *(volatile int *)8 = 1;
}
#endif

const struct trommel_module *EXPORTED(void) {
    static struct trommel_module module = {
        TROMMEL_MODULE_VERSION, sizeof module, "windows of a load", TROMMEL_NUMBERS,
        {[TROMMEL_LOAD] = TROMMEL_INSTRUCTION}, create, window, format, destroy,
    };
#ifdef WRONG_TABLE
    return NULL;
#endif
#ifdef WRONG_VERSION
    module.version = 2;
#endif
#ifdef WRONG_SIZE
    module.size = 16;
#endif
#ifdef WRONG_NULL
    module.window = NULL;
#endif
#ifdef WRONG_TITLE
    module.title = " ";
#endif
#ifdef WRONG_VALUES
    module.values = 2;
#endif
#ifdef WRONG_CAPTURE
    module.capture[TROMMEL_FLOAT] = 32;
#endif
#ifdef WRONG_NOTHING
    module.capture[TROMMEL_LOAD] = 0;
#endif
    return &module;
}
