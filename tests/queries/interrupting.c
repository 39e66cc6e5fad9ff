/* A service for interrupted.c: writes the number of each store that it is told of into the file that its argument names, taking
 * its time. It has a row for each kind of interrupt, and one for what did not come in order. After `-DFAILS` interrupts it fails. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <trommel_service.h>
#include <unistd.h>

#ifndef FAILS
#define FAILS 0
#endif
#ifndef PAUSE
#define PAUSE 300
#endif

struct service {
    const struct trommel_host *host;
    int file;
    uint64_t count[3], last[4], told;
};

static void *create(const struct trommel_host *host, const char *argument)
{
    static const char *const titles[] = {"sync"};
    struct service *service = calloc(1, sizeof *service);
    if (service == NULL) return NULL;
    service->host = host;
    service->file = open(argument, O_WRONLY | O_CLOEXEC);
    host->columns(host, titles, 1, 0);
    return service;
}

static int message(void *instance, const struct trommel_message *message)
{
    (void)instance, (void)message;
    return 1;
}

static int interrupt(void *instance, const struct trommel_message *message, int sync)
{
    struct service *service = instance;
    uint64_t who, value = message->word[0];
    const char *name = service->host->field(service->host, message->instruction, 0);
    if (name == NULL || strcmp(name, "op1") != 0 || service->host->field(service->host, message->instruction, 1) != NULL)
        return 1;
    if (service->host->field(service->host, 200, 0) != NULL) return 2;
    who = value >> 32 & 3;
    if (value != ((who << 32) | (service->last[who] + 1))) service->count[2]++;
    service->last[who]++;
    service->count[sync != 0]++;
    if (sync && PAUSE != 0) usleep(PAUSE);
    if (FAILS != 0 && ++service->told == FAILS) {
        service->host->fail(service->host, "it has had enough");
        return 1;
    }
    return pwrite(service->file, &value, sizeof value, who * sizeof value) != sizeof value;
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
    close(service->file);
    free(service);
}

const struct trommel_service *trommel_service(void)
{
    static const struct trommel_service table = {TROMMEL_SERVICE_VERSION, sizeof table, create, message, finish, destroy, interrupt};
    return &table;
}
