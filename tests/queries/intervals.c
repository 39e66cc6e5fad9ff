/* A service that checks the order of intervals, and keeps all of them: (thread, number, start, kind, at, to), with the count
 * of each candidate. With a file's name as its argument it makes that file when it has seen 50 intervals in a row whose candidates are
 * the same, and adds the rows (0, what, 0, 0, at, to): the hottest candidate of intervals before and after that. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <trommel_service.h>
#include <unistd.h>

#define THREADS 64

struct intervals {
    const struct trommel_host *host;
    char *file;
    uint64_t number[THREADS], events[THREADS], last[2];
    int same, made;
};

static void *create(const struct trommel_host *host, const char *argument) {
    static const char *const titles[] = {"thread", "interval", "start", "kind", "at", "to"};
    struct intervals *all = calloc(1, sizeof *all);
    all->host = host;
    all->file = strdup(argument);
    return host->columns(host, titles, 6, 1 << 4 | 1 << 5) == 0 ? all : NULL;
}

static int message(void *instance, const struct trommel_message *message) {
    (void)instance, (void)message;
    return -1;
}

static int interval(void *instance, const struct trommel_interval *of) {
    struct intervals *all = instance;
    const struct trommel_candidate *first = of->candidates, *candidate = first;
    uint64_t before = UINT64_MAX;
    if (of->size < sizeof *of || of->stride < sizeof *candidate || of->thread >= THREADS || of->pid == 0 ||
        of->number != ++all->number[of->thread] || of->start != all->events[of->thread] || of->events == 0) {
        all->host->fail(all->host, "an interval is missing, or out of order");
        return -1;
    }
    all->events[of->thread] += of->events;
    for (uint64_t n = 0; n < of->count; n++) {
        uint64_t row[6] = {of->thread, of->number, of->start, candidate->kind, candidate->word[0], candidate->word[1]};
        if (candidate->count > before || candidate->places != 3) {
            all->host->fail(all->host, "candidates are out of order");
            return -1;
        }
        before = candidate->count;
        if (*all->file == 0)
            all->host->row(all->host, row, candidate->count);
        candidate = (const void *)((const char *)candidate + of->stride);
    }
    if (*all->file == 0 || of->count == 0)
        return 0;
    uint64_t row[6] = {0, all->made, 0, 0, first->word[0], first->word[1]};
    all->host->row(all->host, row, 1);
    all->same = memcmp(all->last, first->word, sizeof all->last) == 0 ? all->same + 1 : 0;
    memcpy(all->last, first->word, sizeof all->last);
    if (all->same == 50 && !all->made) {
        all->made = 1;
        close(open(all->file, O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    }
    return 0;
}

static int finish(void *instance) {
    (void)instance;
    return 0;
}

static void destroy(void *instance) {
    struct intervals *all = instance;
    free(all->file);
    free(all);
}

const struct trommel_service *trommel_service(void) {
    static const struct trommel_service service = {
        TROMMEL_SERVICE_VERSION, sizeof service, create, message, finish, destroy, NULL, interval,
    };
    return &service;
}
