// Limits that count memory: what fits is mapped, what does not is refused, and the values are those that were set; over fork and exec, lowered for good, and by an ordinary user.
// build: -O2 | -O0 -static
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#define MB (1l << 20)

static long own(const char *key) {
  char l[200]; long kb = 0; FILE *f = fopen("/proc/self/status", "r");
  while (fgets(l, 200, f)) if (!strncmp(l, key, strlen(key))) sscanf(l + strlen(key), ":%ld", &kb);
  fclose(f); return kb << 10;
}

// Megabytes that can be mapped, in steps of 8, up to 1000.
static long room(int flags) {
  long n = 0;
  while (n < 1000 && mmap(0, 8 * MB, PROT_READ | PROT_WRITE, flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED) n += 8;
  return n;
}

// About as much as the limit, whatever there is already: to a step.
static const char *fits(long got, long limit) { return got <= limit + 8 && got >= limit - 48 ? "fits" : "does not fit"; }

static void tell(const char *name, int what) {
  struct rlimit a, b, c; getrlimit(what, &a); prlimit(0, what, 0, &b); syscall(SYS_prlimit64, getpid(), what, 0, &c);
  int same = !memcmp(&a, &b, sizeof a) && !memcmp(&a, &c, sizeof a);
  printf("%s: %ld %ld %s\n", name, (long)a.rlim_cur, (long)a.rlim_max, same ? "same" : "different");
}

static void in_child(void (*f)(void)) {
  fflush(stdout); pid_t p = fork();
  if (!p) { f(); fflush(stdout); _exit(0); }
  int s; waitpid(p, &s, 0); if (s) printf("child: %x\n", s);
}

static void set(int what, long soft, long hard) { struct rlimit r = {soft, hard}; printf("set: %d\n", setrlimit(what, &r) ? errno : 0); }

static void space(void) {
  set(RLIMIT_AS, 400 * MB, 600 * MB); tell("as", RLIMIT_AS); printf("as: %s\n", fits(room(0), 400));
  set(RLIMIT_AS, 500 * MB, 600 * MB); printf("more: %s\n", fits(room(0), 100));
  set(RLIMIT_AS, 600 * MB, 600 * MB); printf("all: %s\n", fits(room(0), 100));
}
static void data(void) {
  set(RLIMIT_DATA, 200 * MB, RLIM_INFINITY); tell("data", RLIMIT_DATA); printf("data: %s\n", fits(room(0), 200));
  // Not data.
  void *m = mmap(0, 400 * MB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); printf("read: %d\n", m != MAP_FAILED);
  printf("write: %d\n", mprotect(m, 400 * MB, PROT_READ | PROT_WRITE) ? errno : 0);
  printf("break: %d\n", sbrk(100 * MB) == (void *)-1);
}
static void below(void) { set(RLIMIT_AS, 1, 1000 * MB); printf("nothing: %ld\n", room(0)); set(RLIMIT_AS, 900 * MB, 1000 * MB); printf("again: %d\n", room(0) > 800); }
static void family(void) {
  set(RLIMIT_AS, 300 * MB, 700 * MB); tell("parent", RLIMIT_AS);
  in_child(space);
  struct rlimit r = {200 * MB, 250 * MB}, old; pid_t p;
  // Of a child, by its parent.
  int pipes[2]; pipe(pipes); fflush(stdout); p = fork();
  if (!p) { char c; read(pipes[0], &c, 1); struct rlimit n; getrlimit(RLIMIT_CPU, &n); printf("cpu: %ld\n", (long)n.rlim_cur); fflush(stdout); _exit(0); }
  struct rlimit cpu = {100, 200}; printf("other: %d\n", prlimit(p, RLIMIT_CPU, &cpu, &old) ? errno : 0); write(pipes[1], "x", 1); waitpid(p, 0, 0);
  setrlimit(RLIMIT_AS, &r); fflush(stdout);
  execl("/proc/self/exe", "limits", "executed", (char *)0); printf("exec: %d\n", errno);
}
static void user(void) {
  setgroups(0, 0); if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) { puts("no other user"); }
  set(RLIMIT_AS, 300 * MB, 500 * MB); set(RLIMIT_AS, 300 * MB, 600 * MB); set(RLIMIT_AS, 600 * MB, 500 * MB); tell("user", RLIMIT_AS);
  set(RLIMIT_AS, 400 * MB, 400 * MB); printf("user: %s\n", fits(room(0), 400)); set(RLIMIT_AS, 401 * MB, 401 * MB); tell("user", RLIMIT_AS);
  in_child(space);
}
static void wrong(void) {
  printf("%ld %d", syscall(SYS_setrlimit, RLIMIT_AS, 8l), errno); printf(" %ld %d", syscall(SYS_getrlimit, RLIMIT_AS, 8l), errno);
  printf(" %ld %d", syscall(SYS_prlimit64, 0, RLIMIT_AS, 8l, 0l), errno); printf(" %ld %d", syscall(SYS_prlimit64, 0, RLIMIT_AS, 0l, 8l), errno);
  printf(" %ld %d", syscall(SYS_getrlimit, 99, 8l), errno); printf(" %ld %d\n", syscall(SYS_prlimit64, 0x7ffffff, RLIMIT_AS, 0l, 0l), errno);
}
int main(int argc, char **argv) {
  if (argc > 1) { tell("executed", RLIMIT_AS); long n = room(0); printf("executed: %s\n", fits(n, 200)); if (own("VmSize") > 201 * MB && n > 200) puts("beyond"); return 0; }
  in_child(space); in_child(data); in_child(below); in_child(family); in_child(user); in_child(wrong);
  return 0;
}
