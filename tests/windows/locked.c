// All memory is locked, now and later, while new code is run: that takes no time and little memory, also in a child.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define MB (1l << 20)
#define FUNCTIONS 60
#define ROUNDS 100

static long status(const char *key) {
  char l[200]; long kb = 0; FILE *f = fopen("/proc/self/status", "r");
  while (fgets(l, 200, f)) if (!strncmp(l, key, strlen(key))) sscanf(l + strlen(key), ":%ld", &kb);
  fclose(f); return kb;
}
static long run(void) {
  long sum = 0; unsigned char *code = mmap(0, FUNCTIONS * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED) return -errno;
  for (int i = 0; i < FUNCTIONS; i++) {
    unsigned char *p = code + i * 4096; memcpy(p, "\x31\xc0", 2); p += 2;
    for (int k = 0; k < 40; k++, p += 10) memcpy(p, "\x48\x8d\x44\x07\x01\x48\x85\xff\x75\x00", 10);
    *p = 0xc3;
  }
  for (int k = 0; k < ROUNDS; k++) for (int i = 0; i < FUNCTIONS; i++) sum += ((long (*)(long))(code + i * 4096))(i);
  munmap(code, FUNCTIONS * 4096); return sum;
}
static void lock(const char *who, int flags) {
  struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a); int r = mlockall(flags) ? errno : 0; clock_gettime(CLOCK_MONOTONIC, &b);
  double took = b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9;
  printf("%s %d: %d, %s, %s\n", who, flags, r, took < 0.5 ? "soon" : "late", status("VmLck") < 128 << 10 ? "little" : "much");
  printf("sum %ld\n", run()); fflush(stdout);
}
static void child(void) {
  fflush(stdout); pid_t p = fork();
  if (!p) { printf("child: %ld\n", status("VmLck")); lock("child", MCL_CURRENT | MCL_FUTURE); _exit(0); }
  int s; waitpid(p, &s, 0); if (s) printf("child: %x\n", s);
}
int main(void) {
  // Others may have a limit that is too low.
  if (geteuid()) return 0;
  lock("now", MCL_CURRENT); munlockall(); printf("unlocked: %ld\n", status("VmLck")); child();
  lock("later too", MCL_CURRENT | MCL_FUTURE); child(); lock("on fault", MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
  munlockall(); printf("unlocked: %ld\n", status("VmLck")); printf("sum %ld\n", run()); return 0;
}
