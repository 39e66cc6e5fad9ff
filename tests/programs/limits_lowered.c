// Limits lowered for good: what they leave can be had, and code that was not run before runs, also with nothing left; by fork and by an ordinary user.
// build: -O2 | -O0 -static
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#define MB (1l << 20)
#define FUNCTIONS 400
#define ROUNDS 40

static unsigned char *code;
// Functions of forty conditional branches each: `lea rax, [rdi + rax + 1]; test rdi, rdi; jne next`.
static void make(void) {
  code = mmap(0, FUNCTIONS * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < FUNCTIONS; i++) {
    unsigned char *p = code + i * 4096; memcpy(p, "\x31\xc0", 2); p += 2;
    for (int k = 0; k < 40; k++, p += 10) memcpy(p, "\x48\x8d\x44\x07\x01\x48\x85\xff\x75\x00", 10);
    *p = 0xc3;
  }
}
static long run(void) {
  long sum = 0;
  for (int k = 0; k < ROUNDS; k++) for (int i = 0; i < FUNCTIONS; i++) sum += ((long (*)(long))(code + i * 4096))(i);
  return sum;
}
static void lower(int what, long room) {
  struct rlimit r = {room, room}, now; int set = setrlimit(what, &r);
  getrlimit(what, &now); printf("set %d, %s\n", set, now.rlim_cur == r.rlim_cur && now.rlim_max == r.rlim_max ? "as set" : "another");
  int got = 0; while (got < 8) { void *m = mmap(0, 4 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); if (m == MAP_FAILED) break; memset(m, 1, 4 * MB); got++; }
  printf("%d of 8\n", got);
  make(); printf("sum %ld\n", run());
  printf("too much: %d\n", mmap(0, 256 * MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
}
static void child(int what, long room, int user) {
  fflush(stdout); pid_t p = fork();
  if (!p) { if (user && setresuid(65534, 65534, 65534)) puts("no other user"); lower(what, room); fflush(stdout); _exit(0); }
  int s; waitpid(p, &s, 0); if (s) printf("child: %x\n", s);
}
int main(void) {
  child(RLIMIT_DATA, 64 * MB, 0); child(RLIMIT_DATA, 256 * MB, 1); child(RLIMIT_AS, 128 * MB, 0); child(RLIMIT_AS, 256 * MB, 1);
  // Nothing is left: what runs goes on, and is refused what it would be refused.
  make(); struct rlimit all = {4096, 4096}; fflush(stdout);
  pid_t p = fork(); if (!p) { setrlimit(RLIMIT_AS, &all); printf("all: sum %ld, %d\n", run(), mmap(0, 64 * MB, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED); fflush(stdout); _exit(0); }
  int s; waitpid(p, &s, 0); printf("%x\n", s);
  lower(RLIMIT_AS, 200 * MB); return 0;
}
