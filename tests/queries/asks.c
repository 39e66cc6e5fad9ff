// A service that loads queries and removes them, as its argument says, at the first message that it is given. It fails with the
// reason if that is refused.
#include <stdlib.h>
#include <string.h>
#include <trommel_service.h>

static const char GOOD[] = "for opJMP * always collect pc misc; send 1 stop;";

struct asks {
    const struct trommel_host *host;
    char what[32];
    int asked;
};

static void *create(const struct trommel_host *host, const char *argument) {
    static const char *const titles[] = {"words", "named"};
    struct asks *asks = calloc(1, sizeof *asks);
    host->columns(host, titles, 2, 0);
    asks->host = host;
    strncpy(asks->what, argument, sizeof asks->what - 1);
    return asks;
}

static int ask(const struct trommel_host *host, const char *what, char *why, size_t room) {
    if (strcmp(what, "nothing") == 0) return 0;
    if (strcmp(what, "aside") == 0) return host->load(host, "asked", "for opJMP * always collect pc misc; send 2 stop;", why, room);
    if (strcmp(what, "text") == 0) return host->load(host, "asked", "for opJMP *\n  sometimes collect pc; count stop;", why, room);
    if (strcmp(what, "event") == 0) return host->load(host, "asked", "for evL2DMISS * always collect pc; send 1 stop;", why, room);
    if (strcmp(what, "name") == 0) return host->load(host, "3", GOOD, why, room);
    if (strcmp(what, "none") == 0) return host->remove(host, "asked", why, room);
    if (strcmp(what, "twice") == 0) host->load(host, "asked", GOOD, NULL, 0);
    if (strcmp(what, "swap") == 0 && host->remove(host, "q:1", why, room) != 0) return 1;
    return host->load(host, "asked", GOOD, why, room);
}

static int message(void *instance, const struct trommel_message *message) {
    struct asks *asks = instance;
    const struct trommel_host *host = asks->host;
    char why[128] = "";
    uint64_t words[2] = {message->words, 0};
    const char *second = host->field(host, message->instruction, 1);
    words[1] = second != NULL && strcmp(second, "misc") == 0 && strcmp(message->load, "asked") == 0;
    host->row(host, words, 1);
    if (asks->asked++ != 0) return 0;
    if (strcmp(asks->what, "short") == 0) {
        // Room for five letters.
        host->load(host, "3", GOOD, why, 6);
        host->fail(host, why);
        return 1;
    }
    if (ask(host, asks->what, why, sizeof why) == 0) return 0;
    host->fail(host, why);
    return 1;
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
