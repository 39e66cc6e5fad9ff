// What a process reads about its own signals: ignored, handled, by each way to read, in a thread, after fork and exec, and of files of that name elsewhere.
// build: -O2 -pthread | -O0 -static -pthread
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#define OF_WINDOWS (1ul << 31)

static void tell(const char *who, const char *text) {
  const char *keys[] = {"\nSigIgn:\t", "\nSigCgt:\t"}; printf("%s:", who);
  for (int n = 0; n < 2; n++) { const char *at = strstr(text, keys[n]); printf(" %lx", at ? strtoul(at + 9, 0, 16) & ~OF_WINDOWS : 1ul); }
  puts(""); fflush(stdout);
}
static char b[8192];
static void by_read(const char *who, const char *path) { int fd = open(path, O_RDONLY); memset(b, 0, sizeof b); long n = read(fd, b, sizeof b - 1); if (n < 100) printf("%ld\n", n); close(fd); tell(who, b); }
static void every_way(const char *who) {
  by_read(who, "/proc/self/status"); by_read("thread", "/proc/thread-self/status");
  char path[64]; snprintf(path, sizeof path, "/proc/%d/task/%ld/status", getpid(), syscall(SYS_gettid)); by_read("task", path);
  int d = open("/proc/self", O_RDONLY | O_DIRECTORY), fd = openat(d, "status", O_RDONLY); close(d);
  memset(b, 0, sizeof b); pread(fd, b, 300, 0); char *rest = b + strlen(b); pread(fd, rest, 4000, rest - b); tell("pread", b);
  memset(b, 0, sizeof b); struct iovec v[] = {{b, 777}, {b + 777, 0}, {b + 777, 4000}}; lseek(fd, 0, SEEK_SET); readv(fd, v, 3); tell("readv", b);
  int copy = dup(fd); close(fd); memset(b, 0, sizeof b); lseek(copy, 0, SEEK_SET); read(copy, b, 4000); close(copy); tell("dup", b);
  memset(b, 0, sizeof b); FILE *f = fopen("/proc/self/status", "r"); fread(b, 1, 8000, f); fclose(f); tell("stdio", b);
}
static void handler(int n) { (void)n; }
static volatile int told;
static void *thread(void *x) { every_way("in a thread"); told = 1; return x; }
int main(int argc, char **argv) {
  if (argc > 1) { every_way(argv[1]); return 0; }
  every_way("first");
  signal(SIGTRAP, SIG_IGN); signal(SIGFPE, SIG_IGN); signal(SIGUSR1, SIG_IGN); every_way("ignored");
  struct sigaction a = {.sa_handler = handler}; sigaction(SIGSEGV, &a, 0); sigaction(SIGFPE, &a, 0); sigaction(SIGUSR2, &a, 0); every_way("handled");
  // No thread waits in the kernel meanwhile: where it did, a process that is detached in that moment would read the runtime's handlers (docs/limits.md).
  pthread_t t; pthread_create(&t, 0, thread, 0); while (!told) sched_yield(); pthread_join(t, 0);
  fflush(stdout); if (!fork()) { signal(SIGILL, SIG_IGN); every_way("forked"); _exit(0); } wait(0);
  // Another process's, and a file of that name that is none.
  int go[2]; pipe(go); pid_t p = fork(); if (!p) { char c; close(go[1]); read(go[0], &c, 1); _exit(0); }
  char path[64]; snprintf(path, sizeof path, "/proc/%d/status", p); int fd = open(path, O_RDONLY); long n = read(fd, b, 8000); printf("another %d\n", n > 100); close(fd); close(go[1]); wait(0);
  char dir[] = "/tmp/statusXXXXXX"; mkdtemp(dir); snprintf(path, sizeof path, "%s/status", dir); fd = open(path, O_RDWR | O_CREAT, 0600);
  const char *line = "Name:\tx\nSigIgn:\t0000000000000010\nSigCgt:\t0000000000000010\n"; write(fd, line, strlen(line)); memset(b, 0, sizeof b); pread(fd, b, 8000, 0); printf("a file %d\n", !strcmp(b, line)); close(fd); unlink(path); rmdir(dir);
  // A read that waits is interrupted as ever.
  sigaction(SIGALRM, &a, 0); struct itimerval soon = {.it_value.tv_usec = 50000}; setitimer(ITIMER_REAL, &soon, 0); pipe(go); n = read(go[0], b, 1); printf("interrupted %ld\n", n); fflush(stdout);
  execl("/proc/self/exe", "status", "executed", (char *)0);
}
