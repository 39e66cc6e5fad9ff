/* A service for dropped.c that is slow until the program has ended. Its argument is `slow` or `held` and the file that the program writes into. `slow`
 * takes 100 microseconds a message. `held` keeps the first message, for two minutes at most. Rows: messages in order, messages out
 * of order, and waits that came to nothing. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <trommel_service.h>
#include <unistd.h>

enum { IN_ORDER, OUT_OF_ORDER, IN_VAIN };

struct service {
    const struct trommel_host *host;
    char *file;
    int held, ended;
    uint64_t last[8], count[3];
};

static void *create(const struct trommel_host *host, const char *argument)
{
    static const char *const titles[] = {"what"};
    struct service *service = calloc(1, sizeof *service);
    if (service == NULL || strlen(argument) < 5) return NULL;
    service->host = host;
    service->held = strncmp(argument, "held", 4) == 0;
    service->file = strdup(argument + 5);
    host->columns(host, titles, 1, 0);
    return service;
}

static int has_ended(struct service *service)
{
    struct stat stat_;
    if (!service->ended) service->ended = stat(service->file, &stat_) == 0 && stat_.st_size > 0;
    return service->ended;
}

static int message(void *instance, const struct trommel_message *message)
{
    struct service *service = instance;
    uint64_t who = message->word[0] >> 32 & 7, n = message->word[0] & 0xffffffff;
    service->count[n > service->last[who] ? IN_ORDER : OUT_OF_ORDER]++;
    service->last[who] = n;
    if (service->held) {
        for (int ticks = 0; !has_ended(service); usleep(1000))
            if (++ticks > 120000) {
                service->count[IN_VAIN]++;
                service->ended = 1;
            }
    } else if (!has_ended(service)) {
        usleep(100);
    }
    return 0;
}

static int finish(void *instance)
{
    struct service *service = instance;
    for (uint64_t n = 0; n < 3; n++)
        if (service->count[n] != 0) service->host->row(service->host, &n, service->count[n]);
    return 0;
}

static void destroy(void *instance)
{
    struct service *service = instance;
    free(service->file);
    free(service);
}

const struct trommel_service *trommel_service(void)
{
    static const struct trommel_service table = {TROMMEL_SERVICE_VERSION, sizeof table, create, message, finish, destroy, NULL};
    return &table;
}
