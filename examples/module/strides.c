/* A customisation module: by how many bytes the addresses of a load's executions differ, from one to the next.
 *
 * A load with one stride is a candidate for prefetching, or for a layout that puts together what it reads.
 *
 *   trommel help trommel_module.h > trommel_module.h
 *   cc -O2 -shared -fPIC -I . -o strides.so strides.c
 *   trommel record --budget 3 --module-lib ./strides.so -- ./app
 */
#include <stdio.h>
#include <stdlib.h>
#include <trommel_module.h>

struct last {
    uint64_t window; /* that it is of, from 1 on */
    uint64_t address;
};

struct strides {
    const struct trommel_module_host *host;
    struct last *last; /* by number of the instruction */
    size_t size;
    uint64_t window;
};

static void *create(const struct trommel_module_host *host, const char *argument) {
    struct strides *strides;
    if (*argument != 0) {
        host->fail(host, "it takes no argument");
        return NULL;
    }
    strides = calloc(1, sizeof *strides);
    if (strides != NULL)
        strides->host = host;
    return strides;
}

/* Room for an instruction of this number. */
static int grow(struct strides *strides, size_t number) {
    size_t size = 2 * number + 64;
    struct last *last = realloc(strides->last, size * sizeof *last);
    if (last == NULL)
        return -1;
    for (size_t n = strides->size; n < size; n++)
        last[n].window = 0;
    strides->last = last;
    strides->size = size;
    return 0;
}

static int window(void *instance, const struct trommel_window *window) {
    struct strides *strides = instance;
    const struct trommel_module_host *host = strides->host;
    /* What was executed between two windows is not known. */
    strides->window++;
    for (size_t n = 0; n < window->count; n++) {
        const struct trommel_tuple *tuple =
            (const struct trommel_tuple *)((const char *)window->tuples + n * window->stride);
        const struct trommel_instruction *load = tuple->instruction;
        struct last *last;
        if (load->number >= strides->size && grow(strides, load->number) != 0) {
            host->fail(host, "there is no memory for more loads");
            return -1;
        }
        last = &strides->last[load->number];
        if (last->window == strides->window)
            host->pair(host, load->pc, tuple->address - last->address);
        last->window = strides->window;
        last->address = tuple->address;
    }
    return 0;
}

static int format(void *instance, const struct trommel_instruction *load, uint64_t value, char *text, size_t size) {
    (void)instance, (void)load;
    snprintf(text, size, "%+lld", (long long)value);
    return 0;
}

static void destroy(void *instance) {
    struct strides *strides = instance;
    free(strides->last);
    free(strides);
}

const struct trommel_module *trommel_module(void) {
    static const struct trommel_module module = {
        .version = TROMMEL_MODULE_VERSION,
        .size = sizeof module,
        .title = "strides of loads, in bytes",
        .values = TROMMEL_NUMBERS,
        .capture = {[TROMMEL_LOAD] = TROMMEL_ADDRESS},
        .create = create,
        .window = window,
        .format = format,
        .destroy = destroy,
    };
    return &module;
}
