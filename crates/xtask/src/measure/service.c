// A service that looks at each message, and at each interrupt.
#include <trommel_service.h>
static uint64_t sum;
static void *create(const struct trommel_host *host, const char *argument) { (void)host, (void)argument; return &sum; }
static int message(void *instance, const struct trommel_message *message) { *(uint64_t *)instance += message->word[0]; return 0; }
static int finish(void *instance) { (void)instance; return 0; }
static void destroy(void *instance) { (void)instance; }
static int interrupt(void *instance, const struct trommel_message *m, int sync) { (void)sync; return message(instance, m); }
const struct trommel_service *trommel_service(void) {
  static const struct trommel_service table = {TROMMEL_SERVICE_VERSION, sizeof table, create, message, finish, destroy, interrupt};
  return &table;
}
