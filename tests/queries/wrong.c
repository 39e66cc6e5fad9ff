/* Services that are wrong in some way, one for each WRONG_... that is defined. */
#include <stdlib.h>
#include <trommel_service.h>

struct wrong {
    const struct trommel_host *host;
    int messages;
};

static void *create(const struct trommel_host *host, const char *argument) {
    struct wrong *wrong;
#ifdef WRONG_CREATE
    host->fail(host, "no luck today");
    return NULL;
#endif
#ifdef WRONG_SILENT
    return NULL;
#endif
    static const char *const titles[] = {"half", "half"}, *const good[] = {"n"};
    const uint64_t word = 7;
    /* Refused: no columns yet, the same title twice, too many, places that there are not. */
    if (host->size < sizeof *host || host->version != TROMMEL_SERVICE_VERSION || argument[0] != 'a' ||
        host->row(host, &word, 1) != -1 || host->columns(host, titles, 2, 0) != -1 ||
        host->columns(host, titles, TROMMEL_WORDS + 1, 0) != -1 || host->columns(host, good, 1, 2) != -1 ||
        host->columns(host, good, 1, 0) != 0 || host->columns(host, good, 1, 0) != -1)
        return NULL;
#ifdef WRONG_LATER
    static int created;
    if (created++ != 0) {
        host->fail(host, "one is enough");
        return NULL;
    }
#endif
    wrong = calloc(1, sizeof *wrong);
    wrong->host = host;
    return wrong;
}

static int message(void *instance, const struct trommel_message *message) {
    struct wrong *wrong = instance;
    uint64_t word = 7;
    if (message->size < sizeof *message || message->queue != 1)
        return -3;
#if defined WRONG_FINISH || defined WRONG_LATER
    return wrong->host->row(wrong->host, &word, 1);
#endif
#ifdef WRONG_ROWS
    /* Room for 1048576 different rows, and five more; those that are there go on. */
    if (wrong->messages++ != 0)
        return 0;
    for (word = 0; word < (1 << 20) + 5; word++)
        if (wrong->host->row(wrong->host, &word, 3) != (word >= 1 << 20))
            return -4;
    word = 7;
    return wrong->host->row(wrong->host, &word, 1);
#endif
    if (++wrong->messages == 10) {
#ifdef WRONG_MESSAGE
        wrong->host->fail(wrong->host, "ten are enough");
        return -1;
#endif
    }
    if (wrong->messages > 10)
        abort();
    wrong->host->row(wrong->host, &word, 2);
    return 0;
}

static int finish(void *instance) {
#ifdef WRONG_FINISH
    struct wrong *wrong = instance;
    uint64_t word = 8;
    wrong->host->row(wrong->host, &word, 1);
    wrong->host->fail(wrong->host, "the last page is missing");
    return 5;
#endif
#if defined WRONG_LATER || defined WRONG_ROWS
    return 0;
#endif
    (void)instance;
    abort();
}

static void destroy(void *instance) {
    free(instance);
}

#ifndef WRONG_SYMBOL
const struct trommel_service *trommel_service(void) {
    static struct trommel_service service = {
        TROMMEL_SERVICE_VERSION, sizeof service, create, message, finish, destroy,
    };
#ifdef WRONG_VERSION
    service.version = 2;
#endif
#ifdef WRONG_SIZE
    service.size = 16;
#endif
#ifdef WRONG_NULL
    service.finish = NULL;
#endif
#ifdef WRONG_TABLE
    return NULL;
#endif
    return &service;
}
#endif
