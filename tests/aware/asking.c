// A program that loads and removes queries itself, which send to a queue that it serves: `asking [all]`. Without `all` it asks once.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../../include/trommel.h"

#define STORES "tag 2 symbol store_to; for opSTORE 2 always collect op1; send 3 stop;"
#define OTHERS "tag 3 symbol never; for opLOAD 3 always collect op1; count stop;"
static volatile long place;
__attribute__((noinline)) void store_to(long n) { place = n; }
__attribute__((noinline)) long never(void) { return place; }

static double now(void) {
  struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9;
}
static char why[200];
static long load(const char *name, const char *text) { return trommel_load_queries(name, text, why, sizeof why); }
static void say(const char *what, long answer) {
  printf("%s %ld%s%s\n", what, answer, answer == TROMMEL_REFUSED ? ": " : "", answer == TROMMEL_REFUSED ? why : "");
  fflush(stdout);
}

static void *thread(void *name) {
  char reason[100]; long bad = 0;
  for (int n = 0; n < 5; n++) bad += trommel_load_queries(name, OTHERS, reason, sizeof reason) != TROMMEL_DONE, bad += trommel_remove_queries(name) != TROMMEL_DONE;
  return (void *)bad;
}
static volatile long handled, strange;
// Once, so that what it interrupts goes on however long it takes.
static void soon(long us) { struct itimerval once = {{0, 0}, {0, us}}; setitimer(ITIMER_REAL, &once, NULL); }
static void handler(int n) {
  char reason[100]; long a = trommel_load_queries("handlers", OTHERS, reason, sizeof reason); (void)n;
  if (a == TROMMEL_DONE) a = trommel_remove_queries("handlers");
  if (a != TROMMEL_DONE && a != TROMMEL_BUSY) strange++;
  handled++;
  soon(500);
}

int main(int argc, char **argv) {
  (void)argv;
  say("load", load("stores", STORES));
  if (argc == 1) return 0;
  say("again", load("stores", OTHERS));
  say("number", load("17", OTHERS));
  say("wrong", load("wrong", "tag 1 symbol x;\nfor opSTORE 1 alway"));
  say("empty", load("empty", ""));
  say("no name", load("", OTHERS));
  say("bad text", trommel_load_queries("bad", OTHERS, (char *)8, 10));
  say("twice", trommel_load_queries("bad", OTHERS, (char *)8, 10));
  say("unmapped", trommel_request(TROMMEL_POST, 8, 48));
  say("short", trommel_load_queries("short", "?", why, 5)); say("nothing", trommel_load_queries("short", "?", NULL, 0) + !memchr(why, 0, 5));
  char *long_text = malloc(20000); memset(long_text, ' ', 19999); long_text[19999] = 0; say("long", load("long", long_text));
  say("remove", trommel_remove_queries("bad"));
  strcpy(why, "-"); say("unknown", trommel_remove_queries("bad"));

  struct trommel_queue *queue = aligned_alloc(64, TROMMEL_QUEUE_BYTES(4096)); struct trommel_message m;
  long opened; double until = now() + 10;
  while ((opened = trommel_open(queue, 3, 4096)) == TROMMEL_UNASKED && now() < until) usleep(1000);
  // From here on each store is a message.
  for (long n = 0; n < 1000; n++) store_to(n);
  long flushed = trommel_flush(3), got = 0;
  while (trommel_receive(queue, &m)) got++;
  printf("opened %ld flushed %ld got %ld\n", opened, flushed, got);
  say("remove", trommel_remove_queries("stores"));
  do { got = 0; usleep(1000); store_to(1); while (trommel_receive(queue, &m)) got++; } while (got && now() < until);
  printf("afterwards %ld close %ld\n", got, trommel_close(3));

  pthread_t threads[4]; static char names[4][8]; long bad = 0;
  for (int n = 0; n < 4; n++) snprintf(names[n], 8, "t%d", n), pthread_create(threads + n, NULL, thread, names[n]);
  for (int n = 0; n < 4; n++) { void *its; pthread_join(threads[n], &its); bad += (long)its; }
  printf("threads %ld\n", bad);

  signal(SIGALRM, handler); soon(500);
  bad = 0; until = now() + 10;
  for (int n = 0; now() < until && (n < 20 || handled < 20); n++) bad += load("between", OTHERS) != TROMMEL_DONE, bad += trommel_remove_queries("between") != TROMMEL_DONE;
  signal(SIGALRM, SIG_IGN);
  printf("between handlers %ld %ld %d\n", bad, strange, handled >= 20);

  fflush(stdout); pid_t child = fork(); if (!child) { say("child", load("childs", OTHERS)); _exit(0); } waitpid(child, NULL, 0);
  say("of the child", trommel_remove_queries("childs"));
}
