// A program that asks for candidates of its last interval: `candidates`. Its hot part changes, in two threads.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include "../../include/trommel.h"

#define ROOM 8
#define PART(name) __attribute__((noinline, section("in_" #name))) static void name(void)
#define BOUNDS(name) extern const char __start_in_##name[], __stop_in_##name[]
BOUNDS(adds);
BOUNDS(walks);
BOUNDS(loads);

static volatile unsigned sink;
static volatile unsigned long fixed = 4242;
PART(adds) { for (unsigned i = 0; i < 20000; i++) sink = i; }
PART(walks) {
  for (unsigned i = 1; i < 400; i++) for (unsigned x = i; x != 1; ) x = x & 1 ? 3 * x + 1 : x / 2;
}
PART(loads) { for (unsigned i = 0; i < 20000; i++) { unsigned long s = fixed; (void)s; } }

static int within(uint64_t at, const char *from, const char *to) { return (uintptr_t)from <= at && at < (uintptr_t)to; }

// Does a part until the candidates of the last interval are of that part alone, and checks them.
static void part(const char *name, void (*does)(void), const char *from, const char *to) {
  struct trommel_last_candidate last[ROOM], one;
  for (int n = 0; n < 1000; n++) {
    does();
    long found = trommel_candidates(last, ROOM);
    int all = found > 0 && found <= ROOM, good = 1, constant = 0;
    for (long i = 0; all && i < found; i++) {
      const struct trommel_last_candidate *of = &last[i];
      all = within(of->at, from, to);
      good &= of->interval > 0 && of->interval == last[0].interval && of->events == 5000 && of->count >= 50 && of->count <= of->events;
      good &= i == 0 || of->count <= last[i - 1].count;
      good &= of->kind == 2 || (of->kind == 0 && within(of->value, from, to));
      constant |= of->kind == 2 && of->value == 4242;
    }
    if (!all) continue;
    // With less room there are as many, and the first is the same.
    good &= trommel_candidates(&one, 1) == found && one.at == last[0].at && trommel_candidates(0, 0) == found;
    good &= trommel_candidates((void *)8, 1) == TROMMEL_WRONG;
    printf("%s %s%s\n", name, good ? "found" : "WRONG", constant ? ", with its value" : "");
    return;
  }
  printf("%s not found\n", name);
}

static void *parts(void *none) {
  (void)none;
  part("adds", adds, __start_in_adds, __stop_in_adds);
  part("walks", walks, __start_in_walks, __stop_in_walks);
  part("loads", loads, __start_in_loads, __stop_in_loads);
  part("adds", adds, __start_in_adds, __stop_in_adds);
  return 0;
}

int main(void) {
  struct trommel_last_candidate last[ROOM];
  pthread_t thread;
  printf("before %ld\n", trommel_candidates(last, ROOM));
  if (!trommel_present()) return 0;
  adds();
  if (trommel_candidates(last, ROOM) == 0) { puts("no intervals"); return 0; }
  parts(0);
  pthread_create(&thread, 0, parts, 0);
  pthread_join(thread, 0);
}
