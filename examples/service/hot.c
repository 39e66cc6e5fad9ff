/* A service that finds each interval's hottest branch or call. It says when that changes.
 *
 *   trommel help trommel_service.h > trommel_service.h
 *   cc -O2 -shared -fPIC -I . -o hot.so hot.c
 *   trommel record -e edge,call -c 'M4[10k,1%]2048' --service ./hot.so -- ./app
 *   trommel record -e edge,call -c 'M4[10k,1%]2048' --service ./hot.so:changes -- ./app
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trommel_service.h>

struct hot {
    const struct trommel_host *host;
    int says; /* prints when another candidate is the hottest */
    uint64_t last[2];
};

static void *create(const struct trommel_host *host, const char *argument) {
    static const char *const titles[] = {"hottest", "to"};
    struct hot *hot;
    if (*argument != 0 && strcmp(argument, "changes") != 0) {
        host->fail(host, "its argument is `changes`, or there is none");
        return NULL;
    }
    hot = calloc(1, sizeof *hot);
    if (hot == NULL)
        return NULL;
    hot->host = host;
    hot->says = *argument != 0;
    host->columns(host, titles, 2, 3);
    return hot;
}

static int message(void *instance, const struct trommel_message *message) {
    (void)instance, (void)message;
    return 0;
}

/* Names the file of a place, and the address there as `objdump -d` prints it. */
static void say(const struct trommel_host *host, const struct trommel_interval *interval,
                const struct trommel_candidate *first) {
    uint64_t address = 0;
    const char *file = host->module(host, first->word[0], &address);
    fprintf(stderr, "process %" PRIu32 ", thread %" PRIu32 ", interval %" PRIu64 ": %s+%#" PRIx64 ", %.1f %%\n",
            interval->pid, interval->thread, interval->number, file != NULL ? file : "?", address,
            100.0 * (double)first->count / (double)interval->events);
}

static int interval(void *instance, const struct trommel_interval *interval) {
    struct hot *hot = instance;
    const struct trommel_candidate *first = interval->candidates;
    /* Candidates come with the most frequent first, and there may be none. */
    if (interval->count == 0 || first->places != 3)
        return 0;
    hot->host->row(hot->host, first->word, 1);
    if (hot->says && memcmp(hot->last, first->word, sizeof hot->last) != 0)
        say(hot->host, interval, first);
    memcpy(hot->last, first->word, sizeof hot->last);
    return 0;
}

static int finish(void *instance) {
    (void)instance;
    return 0;
}

static void destroy(void *instance) {
    free(instance);
}

const struct trommel_service *trommel_service(void) {
    static const struct trommel_service service = {
        TROMMEL_SERVICE_VERSION, sizeof service, create, message, finish, destroy, NULL, interval,
    };
    return &service;
}
