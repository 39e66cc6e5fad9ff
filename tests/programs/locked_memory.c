// All memory is locked: now, what comes later, on its first use; as root and as an ordinary user, within the limit and above it.
// build: -O2 | -O0 -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define MB (1l << 20)
static long status(const char *key) {
  char l[200]; long kb = 0; FILE *f = fopen("/proc/self/status", "r");
  while (fgets(l, 200, f)) if (!strncmp(l, key, strlen(key))) sscanf(l + strlen(key), ":%ld", &kb);
  fclose(f); return kb;
}
static const char *locked(void) { long kb = status("VmLck"); return kb == 0 ? "nothing" : kb < 64 << 10 ? "little" : "much"; }
static int lock(int flags) { return mlockall(flags) ? errno : 0; }
// Whether what is mapped now is locked: it grows what is.
static int grows(int prot) {
  long before = status("VmLck"); char *m = mmap(0, 4 * MB, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return -errno;
  long after = status("VmLck"); return (int)((after - before) >> 10);
}
static void *thread(void *x) { printf("thread %d\n", grows(PROT_READ | PROT_WRITE)); return 0; }
static void root(void) {
  printf("flags %d %d %d\n", lock(0), lock(MCL_ONFAULT), lock(64));
  printf("current %d", lock(MCL_CURRENT)); printf(", %s, later %d\n", locked(), grows(PROT_READ | PROT_WRITE));
  printf("unlock %d", munlockall()); printf(", %s\n", locked());
  printf("on fault %d", lock(MCL_CURRENT | MCL_ONFAULT)); printf(", later %d\n", grows(PROT_READ | PROT_WRITE));
  printf("future %d", lock(MCL_FUTURE)); printf(", later %d %d\n", grows(PROT_READ | PROT_WRITE), grows(PROT_NONE));
  pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0);
  long before = status("VmLck"); sbrk(4 * MB); printf("break %ld\n", (status("VmLck") - before) >> 10);
  fflush(stdout); pid_t p = fork(); if (!p) { printf("child %s %d\n", locked(), grows(PROT_READ | PROT_WRITE)); fflush(stdout); _exit(0); } waitpid(p, 0, 0);
  printf("both %d", lock(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)); printf(", later %d\n", grows(PROT_READ | PROT_WRITE));
  printf("current again %d", lock(MCL_CURRENT)); printf(", later %d\n", grows(PROT_READ | PROT_WRITE));
  munlockall(); char *m = mmap(0, MB, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); printf("some %d %d %s\n", mlock(m, MB), mlock2(m, MB, MLOCK_ONFAULT), locked());
}
static void user(void) {
  struct rlimit r = {6 * MB, 6 * MB}; setrlimit(RLIMIT_MEMLOCK, &r); if (setresuid(65534, 65534, 65534)) return;
  printf("user: current %d", lock(MCL_CURRENT)); printf(" %s\n", locked()); munlockall();
  printf("future %d", lock(MCL_FUTURE)); printf(", later %d", grows(3)); printf(" %d", grows(3)); printf(" %d\n", grows(PROT_NONE)); munlockall();
  char *m = mmap(0, 16 * MB, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memset(m, 1, MB);
  printf("above %d", lock(MCL_CURRENT)); printf(" %s\n", locked());
  r.rlim_cur = 0; setrlimit(RLIMIT_MEMLOCK, &r); printf("none %d %d\n", lock(MCL_CURRENT), lock(MCL_FUTURE));
}
static void child(void (*f)(void)) { fflush(stdout); pid_t p = fork(); if (!p) { f(); fflush(stdout); _exit(0); } int s; waitpid(p, &s, 0); if (s) printf("child %x\n", s); }
int main(void) { child(root); child(user); root(); return 0; }
