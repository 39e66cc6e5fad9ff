// A program that serves a queue of queries itself: `served WHAT [STORES [MESSAGES]]`. Stores of references as in threads.c; the
// service thread checks that those of each sequence come in order, none missing. Prints what it saw, and "wrong" with what was not so.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../include/trommel.h"

enum { QUEUE = 3, THREADS = 3, HANDLER = THREADS + 1, CHILD, SEQUENCES };
static void *table[SEQUENCES][64];
static uint32_t stored[SEQUENCES], received[SEQUENCES], last[SEQUENCES];
static long stores = 20000, room = 128;
static struct trommel_queue *queue;
static volatile int phase, wrong;

__attribute__((noinline)) void store_reference(void **to, void *what) { *(void *volatile *)to = what; }

static void store(uintptr_t sequence) {
  uint32_t n = ++stored[sequence];
  store_reference(&table[sequence][n % 64], n % 5 == 0 ? 0 : (void *)(sequence << 32 | n));
}

static void *work(void *argument) {
  for (long n = 0; stores ? n < stores : phase < 2; n++) store((uintptr_t)argument);
  // What one thread has told another it has sent before.
  long flushed = trommel_flush(QUEUE);
  if (flushed != TROMMEL_DONE && phase == 0) wrong = 1, printf("wrong: flush %ld\n", flushed);
  return 0;
}

static void on_alarm(int signal) { (void)signal, store(HANDLER); }

static void *memory(long messages) {
  return mmap(0, TROMMEL_QUEUE_BYTES(messages), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void got(const struct trommel_message *m) {
  uint32_t sequence = m->word[0] >> 32, n = (uint32_t)m->word[0], next;
  if (sequence >= SEQUENCES) { wrong = 1, printf("wrong: %lx\n", (long)m->word[0]); return; }
  next = last[sequence] + 1;
  if (next % 5 == 0) next++;
  if (n != next || (m->ready & 0xff) != QUEUE) wrong = 1, printf("wrong: %u %u behind %u\n", sequence, n, last[sequence]);
  last[sequence] = n, received[sequence]++;
}

static long receive_all(void) {
  struct trommel_message m;
  long n = 0;
  while (trommel_receive(queue, &m)) got(&m), n++;
  return n;
}

static void wait_for(int p) { while (phase < p) usleep(100); }

// Serves until it is closed.
static void *serve(void *argument) {
  queue = memory(room);
  long opened = trommel_open(queue, QUEUE, room);
  *(long *)argument = opened;
  if (opened != TROMMEL_DONE) return 0;
  do receive_all(); while (trommel_wait(queue, 1000));
  return 0;
}

static pthread_t threads[THREADS + 1], server;
static void start(void *(*how)(void *), long *opened) {
  *(volatile long *)opened = 99;
  pthread_create(&server, 0, how, opened);
  while (*(volatile long *)opened == 99) usleep(100);
}
static void start_work(void) { for (uintptr_t k = 1; k <= THREADS; k++) pthread_create(&threads[k], 0, work, (void *)k); }
static void join_work(void) { for (int k = 1; k <= THREADS; k++) pthread_join(threads[k], 0); }
static void block(int signal, int how) {
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, signal), pthread_sigmask(how, &set, 0);
}

// Each store of threads and of a signal handler, in order; a child's are not among them.
static void order(void) {
  long opened;
  block(SIGALRM, SIG_BLOCK);
  start(serve, &opened);
  if (opened != TROMMEL_DONE) { printf("not open %ld\n", opened); return; }
  start_work();
  signal(SIGALRM, on_alarm);
  block(SIGALRM, SIG_UNBLOCK);
  struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, 0);
  pid_t child = fork();
  if (child == 0) {
    setitimer(ITIMER_REAL, &never, 0);
    for (int n = 0; n < 1000; n++) store(CHILD);
    // It has no service thread, and serves a queue of its own.
    long flushed = trommel_flush(QUEUE), again = (queue = memory(16), trommel_open(queue, QUEUE, 16));
    stored[CHILD] = 0;
    for (int n = 0; n < 10; n++) store(CHILD);
    _exit(flushed == TROMMEL_WRONG && again == TROMMEL_DONE && receive_all() == 8 && !wrong ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  join_work();
  setitimer(ITIMER_REAL, &never, 0);
  block(SIGALRM, SIG_BLOCK);
  long flushed = trommel_flush(QUEUE), closed = trommel_close(QUEUE), twice = trommel_close(QUEUE);
  pthread_join(server, 0);
  printf("child %d flush %ld close %ld %ld lost %lu\n", status, flushed, closed, twice, (long)queue->lost);
  for (int k = 1; k <= HANDLER; k++)
    if (received[k] != stored[k] - stored[k] / 5) wrong = 1, printf("wrong: %d: %u of %u\n", k, received[k], stored[k]);
}

// A thread that sends to itself does not wait for itself.
static void self(void) {
  queue = memory(16);
  printf("open %ld", trommel_open(queue, QUEUE, 16));
  for (int n = 0; n < 40; n++) store(1);
  long n = receive_all();
  printf(" received %ld lost %ld flush %ld\n", n, (long)queue->lost, trommel_flush(QUEUE));
  trommel_close(QUEUE);
}

// Threads wait for room; what they wait for happens in a moment.
static void *serve_until(void *argument) {
  queue = memory(16);
  long opened = trommel_open(queue, QUEUE, 16);
  *(long *)argument = opened;
  wait_for(1);
  return 0;
}
static void wait_until_full(void) {
  struct trommel_message *all = (struct trommel_message *)(queue + 1);
  for (int n = 0; n < 16; n++) while (!((volatile struct trommel_message *)all)[n].ready && trommel_is_open(queue)) usleep(100);
  usleep(20000);
}
static void end(void) {
  long opened;
  start(serve_until, &opened);
  start_work();
  wait_until_full();
  phase = 1;
  pthread_join(server, 0);
  join_work();
  printf("open %ld state %u flush %ld\n", opened, queue->state, trommel_flush(QUEUE));
}
static void *exec_away(void *argument) {
  serve_until(argument);
  execl("/bin/echo", "echo", "another program", (char *)0);
  return 0;
}
static void away(void) {
  long opened;
  start(exec_away, &opened);
  start_work();
  wait_until_full();
  printf("open %ld\n", opened), fflush(stdout);
  phase = 1;
  join_work();
}
static void leave(void) {
  long opened;
  start(serve_until, &opened);
  start_work();
  wait_until_full();
  phase = 1, trommel_leave();
  join_work();
  printf("open %ld\n", opened);
}
// Somebody else closes it, and uses the memory for something else.
static void closed(void) {
  long opened;
  stores = 0;
  start(serve_until, &opened);
  for (int n = 0; n < 50; n++) {
    if (n == 0) start_work(); else trommel_open(queue, QUEUE, 16);
    wait_until_full();
    phase = 1;
    if (trommel_close(QUEUE) != TROMMEL_DONE) wrong = 1, printf("wrong: close\n");
    memset(queue, 7, TROMMEL_QUEUE_BYTES(16));
    usleep(1000);
    for (unsigned long i = 0; i < TROMMEL_QUEUE_BYTES(16); i++)
      if (((char *)queue)[i] != 7) { wrong = 1, printf("wrong: byte %lu was written\n", i); break; }
  }
  phase = 2;
  pthread_join(server, 0);
  join_work();
  printf("open %ld\n", opened);
}

// A handler runs in a thread that waits for room, before there is any.
static volatile int handled;
static void on_user(int signal) { (void)signal, store(HANDLER), handled++; }
static void *interrupt(void *argument) {
  serve_until(argument);
  pthread_kill(threads[1], SIGUSR1);
  for (int n = 0; n < 5000 && !handled; n++) usleep(1000);
  if (!handled) wrong = 1, printf("wrong: not handled\n");
  do receive_all(); while (trommel_wait(queue, 1000));
  return 0;
}
static void interrupted(void) {
  long opened;
  signal(SIGUSR1, on_user);
  stores = 1000;
  start(interrupt, &opened);
  pthread_create(&threads[1], 0, work, (void *)1);
  wait_until_full();
  phase = 1;
  pthread_join(threads[1], 0);
  trommel_close(QUEUE);
  pthread_join(server, 0);
  printf("open %ld handled %d received %u %u\n", opened, handled, received[1], received[HANDLER]);
}

// Nothing that is passed or written does harm.
static void hostile(void) {
  char *m = memory(64);
  char *fixed = mmap(0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct trommel_queue *q = (void *)m;
  printf("nowhere %ld %ld %ld", trommel_request(TROMMEL_OPEN, 0, 4096), trommel_request(TROMMEL_OPEN, 64, 4096),
         trommel_request(TROMMEL_OPEN, -64ul, 4096));
  printf(" readonly %ld", trommel_request(TROMMEL_OPEN, (uintptr_t)fixed, 8192));
  printf(" room %ld %ld %ld %ld", trommel_open(q, QUEUE, 0), trommel_open(q, QUEUE, 1), trommel_open(q, QUEUE, 3), trommel_open(q, QUEUE, 1 << 17));
  printf(" number %ld", trommel_open(q, 256 + QUEUE, 16));
  q->number = QUEUE, q->messages = 64;
  printf(" bytes %ld", trommel_request(TROMMEL_OPEN, (uintptr_t)m, TROMMEL_QUEUE_BYTES(64) - 1));
  printf(" place %ld", trommel_open((void *)(m + 8), QUEUE, 16));
  printf(" unasked %ld", trommel_open(q, QUEUE + 1, 16));
  printf(" others %ld %ld %ld", trommel_close(QUEUE), trommel_close(256 + QUEUE), trommel_flush(999));
  printf(" open %ld", trommel_open(q, QUEUE, 16));
  printf(" %ld\n", trommel_open((void *)memory(16), QUEUE, 16));
  // A read status that nobody can have written, when there is no room.
  queue = q;
  for (uint64_t wild = 1; wild; wild *= 16) {
    for (int n = 0; n < 40; n++) { if (n == 15) q->read = 0x8000000000000000ull | wild; store(1); }
    printf("%ld", trommel_flush(QUEUE));
    trommel_open(q, QUEUE, 16);
  }
  // Room that was there.
  memset(m, 255, 4096), munmap(m, TROMMEL_QUEUE_BYTES(64));
  for (int n = 0; n < 40; n++) store(1);
  printf(" flush %ld\n", trommel_flush(QUEUE));
}

// As many as there may be.
static void many(void) {
  int open = 0;
  for (int n = 0; n < 256; n++) open += trommel_open(memory(2), n, 2) == TROMMEL_DONE;
  printf("open %d\n", open);
}

// As `send 3 or drop`: what was not received was counted.
static void drop(void) {
  long opened;
  start(serve_until, &opened);
  start_work();
  join_work();
  long left = receive_all(), sum = 0;
  for (int k = 1; k <= THREADS; k++) sum += stored[k] - stored[k] / 5;
  printf("open %ld received %ld all %d\n", opened, left, left + (long)queue->lost == sum);
  phase = 1, wrong = 0;
  pthread_join(server, 0);
}

int main(int argc, char **argv) {
  static const struct { const char *name; void (*run)(void); } all[] = {
      {"order", order}, {"self", self}, {"end", end}, {"exec", away}, {"leave", leave}, {"closed", closed},
      {"interrupted", interrupted}, {"hostile", hostile}, {"many", many}, {"drop", drop}};
  if (argc > 2) stores = atol(argv[2]);
  if (argc > 3) room = atol(argv[3]);
  for (unsigned n = 0; n < sizeof all / sizeof *all; n++)
    if (argc > 1 && !strcmp(argv[1], all[n].name)) all[n].run();
  return wrong;
}
