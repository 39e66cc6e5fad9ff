/* A service that tabulates branches: how often each was taken, and how often not.
 *
 *   for opBRANCH * every 256 collect pc misc;
 *       send 1 stop;
 *
 *   trommel help trommel_service.h > trommel_service.h
 *   cc -O2 -shared -fPIC -I . -o edges.so edges.c
 *   trommel record -q edges.rpa --service 1=./edges.so -- ./app
 */
#include <stdlib.h>
#include <trommel_service.h>

struct edge {
    uint64_t place, taken, count; /* no edge where count is 0 */
};

struct edges {
    const struct trommel_host *host;
    struct edge *table;
    size_t size, used; /* size is a power of two */
};

static struct edge *find(struct edge *table, size_t size, uint64_t place, uint64_t taken) {
    size_t n = (place * 2 + taken) * 0x9e3779b97f4a7c15u >> 32;
    while (table[n &= size - 1].count != 0 && (table[n].place != place || table[n].taken != taken))
        n++;
    return &table[n];
}

static int grow(struct edges *edges) {
    size_t size = edges->size * 2;
    struct edge *table = calloc(size, sizeof *table);
    if (table == NULL)
        return -1;
    for (size_t n = 0; n < edges->size; n++)
        if (edges->table[n].count != 0)
            *find(table, size, edges->table[n].place, edges->table[n].taken) = edges->table[n];
    free(edges->table);
    edges->table = table;
    edges->size = size;
    return 0;
}

static void destroy(void *instance) {
    struct edges *edges = instance;
    free(edges->table);
    free(edges);
}

static void *create(const struct trommel_host *host, const char *argument) {
    static const char *const titles[] = {"branch", "taken"};
    struct edges *edges;
    if (*argument != 0) {
        host->fail(host, "it takes no argument");
        return NULL;
    }
    host->columns(host, titles, 2, 1);
    edges = calloc(1, sizeof *edges);
    if (edges == NULL)
        return NULL;
    edges->host = host;
    edges->size = 1024;
    edges->table = calloc(edges->size, sizeof *edges->table);
    if (edges->table == NULL) {
        destroy(edges);
        return NULL;
    }
    return edges;
}

static int message(void *instance, const struct trommel_message *message) {
    struct edges *edges = instance;
    const struct trommel_host *host = edges->host;
    struct edge *edge;
    uint64_t place, taken;
    if (message->words != 2 || message->addresses != 1) {
        host->fail(host, "the query should be on opBRANCH and collect pc and misc");
        return -1;
    }
    place = host->place(host, message->word[0]);
    taken = message->word[1] & 1;
    if (edges->used * 2 >= edges->size && grow(edges) != 0) {
        host->fail(host, "there is no memory for more branches");
        return -1;
    }
    edge = find(edges->table, edges->size, place, taken);
    if (edge->count++ == 0) {
        edge->place = place;
        edge->taken = taken;
        edges->used++;
    }
    return 0;
}

static int finish(void *instance) {
    struct edges *edges = instance;
    for (size_t n = 0; n < edges->size; n++) {
        const struct edge *edge = &edges->table[n];
        uint64_t words[2] = {edge->place, edge->taken};
        if (edge->count != 0)
            edges->host->row(edges->host, words, edge->count);
    }
    return 0;
}

const struct trommel_service *trommel_service(void) {
    static const struct trommel_service service = {
        TROMMEL_SERVICE_VERSION, sizeof service, create, message, finish, destroy, NULL, NULL,
    };
    return &service;
}
