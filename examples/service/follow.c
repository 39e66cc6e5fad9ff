/* A service that finds the loads that are executed most often, and asks for the addresses that they read.
 *
 *   for opLOAD * every 256 collect pc;
 *       send 1 stop;
 *
 *   trommel help trommel_service.h > trommel_service.h
 *   cc -O2 -shared -fPIC -I . -o follow.so follow.c
 *   trommel record -q loads.rpa --service 1=./follow.so -- ./app
 *
 * Of the first loads that it was told of 64 times it asks, by a query of its own for each, which lines of a cache they read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trommel_service.h>

enum { LOADS = 4096, OFTEN = 64, MOST = 4, LINE = 64, ROOM = 256 };

struct seen {
    uint64_t place, count;
};

struct follow {
    const struct trommel_host *host;
    int followed;
    struct seen table[LOADS];
};

static void *create(const struct trommel_host *host, const char *argument) {
    static const char *const titles[] = {"load", "line"};
    struct follow *follow = calloc(1, sizeof *follow);
    (void)argument;
    if (follow == NULL)
        return NULL;
    host->columns(host, titles, 2, 1);
    follow->host = host;
    return follow;
}

/* Asks which addresses the load at a place reads. */
static int ask(struct follow *follow, uint64_t place) {
    char name[32], why[ROOM], text[4096 + ROOM];
    uint64_t address;
    const char *path = follow->host->module(follow->host, place, &address);
    if (path == NULL || strlen(path) > 4096 || strpbrk(path, "\"\\\n") != NULL)
        return 0;
    snprintf(name, sizeof name, "load%d", follow->followed++);
    snprintf(text, sizeof text,
             "tag 1 pc 0x%llx..0x%llx in \"%s\";\n"
             "for opLOAD 1 every 16 collect pc res2; send 1 stop;\n",
             (unsigned long long)address, (unsigned long long)address + 1, path);
    if (follow->host->load(follow->host, name, text, why, sizeof why) == 0)
        return 0;
    follow->host->fail(follow->host, why);
    return 1;
}

static int message(void *instance, const struct trommel_message *message) {
    struct follow *follow = instance;
    uint64_t place = follow->host->place(follow->host, message->word[0]);
    struct seen *seen = &follow->table[(place * 0x9e3779b97f4a7c15u) >> 52];
    if (message->words == 2) {
        uint64_t row[2] = {place, message->word[1] / LINE * LINE};
        follow->host->row(follow->host, row, message->stands_for);
        return 0;
    }
    if (seen->place != place) {
        seen->place = place;
        seen->count = 0;
    }
    if (++seen->count == OFTEN && follow->followed < MOST)
        return ask(follow, place);
    return 0;
}

static int finish(void *instance) {
    (void)instance;
    return 0;
}

const struct trommel_service *trommel_service(void) {
    static const struct trommel_service service = {
        TROMMEL_SERVICE_VERSION, sizeof service, create, message, finish, free, NULL, NULL};
    return &service;
}
