// How long a signal takes from where it is sent to the first instruction of its handler.
//
//   latency target MODE FILE         runs until told to stop; MODE is loop, straight, blocked, full or fresh
//   latency rates                    prints faults of a write barrier a second, and microseconds a signal of a 10 kHz timer costs
//   latency send FILE SAMPLES [PID]  sends to it; prints median, 99th percentile and largest, in microseconds. PID is stopped meanwhile
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1 << 16, FUNCTIONS = 20000 };
static volatile struct shared {
  int pid, stop, ready;
  long entered[MOST];
} *shared;

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void entered(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  shared->entered[info->si_value.sival_int] = now();
}

static __attribute__((noinline)) unsigned long loop(unsigned long x, const unsigned *table) {
  for (int i = 0; i < 10000; i++) {
    x = x * 6364136223846793005u + table[x >> 58];
    if (x >> 63) x ^= x >> 7;
  }
  return x;
}

// Code without a branch: 24 000 instructions, a load in every third.
static __attribute__((noinline)) unsigned long straight(unsigned long x, const unsigned *table) {
  __asm__ volatile(".rept 8000\n imul $3, %0, %0\n add 16(%1), %0\n lea 1(%0), %0\n .endr\n" : "+r"(x) : "r"(table) : "cc");
  return x;
}

// As many functions, each of a few instructions and a branch.
__asm__(".p2align 4\nfresh_start:\n.rept 20000\n lea (%rdi,%rdi,2), %rax\n add (%rsi), %rax\n test $64, %al\n jz 1f\n xor $5, %rax\n1: mov %rax, %rdi\n ret\n .p2align 5\n.endr\n");
extern char fresh_start[];

static void target(const char *mode) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = entered;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaction(SIGRTMIN, &action, NULL);
  unsigned table[64];
  for (unsigned i = 0; i < 64; i++) table[i] = i * 2654435761u;
  unsigned long x = 1;
  int empty[2];
  if (pipe(empty)) exit(2);
  shared->pid = getpid();
  for (unsigned long n = 0; !shared->stop; n++) {
    shared->ready = 1;
    if (!strcmp(mode, "straight")) x = straight(x, table);
    else if (!strcmp(mode, "blocked")) {
      char c;
      if (read(empty[0], &c, 1) != 1) return;
    } else if (!strcmp(mode, "fresh")) {
      for (int k = 0; k < 100; k++) x = ((unsigned long (*)(unsigned long, const unsigned *))(fresh_start + 32 * (n * 100 + k) % (32 * FUNCTIONS)))(x, table);
    } else x = loop(x, table);
  }
  printf("%d\n", x == 0);
}

static int by_size(const void *a, const void *b) {
  long x = *(const long *)a, y = *(const long *)b;
  return (x > y) - (x < y);
}

static void send_all(int samples, int stopped) {
  static long took[MOST];
  while (!shared->ready) usleep(1000);
  usleep(100000);
  if (stopped) kill(stopped, SIGSTOP), usleep(400000);
  for (int n = 0; n < samples; n++) {
    usleep(200 + random() % 500);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = n;
    long sent = now();
    syscall(SYS_rt_sigqueueinfo, shared->pid, SIGRTMIN, &info);
    while (!shared->entered[n]) {
      if (now() - sent > 5000000000) {
        if (stopped) kill(stopped, SIGCONT);
        kill(shared->pid, SIGKILL);
        exit(1);
      }
      // Leaves the processor to others, without a timer's delay.
      sched_yield();
    }
    took[n] = shared->entered[n] - sent;
  }
  if (stopped) kill(stopped, SIGCONT);
  shared->stop = 1;
  kill(shared->pid, SIGKILL);
  qsort(took, samples, sizeof *took, by_size);
  printf("%.1f %.1f %.1f\n", took[samples / 2] / 1e3, took[samples * 99 / 100] / 1e3, took[samples - 1] / 1e3);
}

static volatile long ticks;

static void open_page(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  mprotect((void *)((unsigned long)info->si_addr & ~4095ul), 4096, PROT_READ | PROT_WRITE);
}

static void tick(int signal) {
  (void)signal;
  ticks++;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Medians: of seven rounds of faults, and of seven of computing with the timer and without.
static int rates(void) {
  enum { ROUNDS = 7, PAGES = 64, SWEEPS = 100 };
  char *heap = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = open_page;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, NULL);
  action.sa_handler = tick;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  unsigned table[64];
  for (unsigned i = 0; i < 64; i++) table[i] = i * 2654435761u;
  unsigned long x = 1;
  double faults[ROUNDS], costs[ROUNDS];
  for (int round = 0; round < ROUNDS; round++) {
    long start = now();
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
      mprotect(heap, PAGES * 4096, PROT_READ);
      for (int page = 0; page < PAGES; page++) heap[page * 4096] = sweep;
    }
    faults[round] = PAGES * SWEEPS * 1e9 / (now() - start);
    start = now();
    for (int i = 0; i < 3000; i++) x = loop(x, table);
    long plain = now() - start;
    struct itimerval timer = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    ticks = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
    start = now();
    for (int i = 0; i < 3000; i++) x = loop(x, table);
    long with = now() - start;
    setitimer(ITIMER_REAL, &off, NULL);
    costs[round] = ticks ? (with - plain) / 1e3 / ticks : 0;
  }
  qsort(faults, ROUNDS, sizeof *faults, by_value);
  qsort(costs, ROUNDS, sizeof *costs, by_value);
  printf("%.0f %.1f\n", faults[ROUNDS / 2], costs[ROUNDS / 2]);
  return x == 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "rates")) return rates();
  if (argc < 4) return 2;
  int send = !strcmp(argv[1], "send");
  int fd = open(argv[send ? 2 : 3], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *shared)) return 2;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (send) send_all(atoi(argv[3]), argc > 4 ? atoi(argv[4]) : 0);
  else target(argv[2]);
}
