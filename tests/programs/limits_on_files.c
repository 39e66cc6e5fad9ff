// No descriptor is left, and code that was not executed yet is mapped, generated and executed; then another program.
// build: -O2 | -O1 -pthread
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned char code[] = {0xb8, 1, 0, 0, 0, 0xc3};
static int made(int n) {
  unsigned char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  code[1] = n; memcpy(p, code, sizeof code); mprotect(p, 4096, PROT_READ | PROT_EXEC); return ((int (*)(void))p)();
}
static int open_all(void) { int n = 0; while (dup(1) >= 0) n++; return n; }
static void tell(void) { struct rlimit r; getrlimit(RLIMIT_NOFILE, &r); printf("%ld %ld, next %d\n", (long)r.rlim_cur, (long)r.rlim_max, dup(0) < 0 ? errno : 0); }
static void child(int soft, int hard, int user) {
  fflush(stdout); pid_t p = fork();
  if (!p) {
    if (user) setresuid(65534, 65534, 65534);
    struct rlimit r = {soft, hard}; printf("set %d\n", setrlimit(RLIMIT_NOFILE, &r) ? errno : 0);
    int n = open_all(); printf("opened %d\n", n); tell();
    printf("%d %d %d\n", made(3), made(4), made(5));
    r.rlim_cur = hard; printf("set %d\n", setrlimit(RLIMIT_NOFILE, &r) ? errno : 0); r.rlim_max = hard + 1; printf("above %d\n", user ? setrlimit(RLIMIT_NOFILE, &r) ? errno : 0 : 0);
    fflush(stdout);
    pid_t q = fork(); if (!q) { printf("%d\n", made(6)); fflush(stdout); execl("/bin/true", "true", (char *)0); _exit(9); }
    int s; waitpid(q, &s, 0); printf("program %x\n", s); fflush(stdout); _exit(0);
  }
  int s; waitpid(p, &s, 0); printf("child %x\n", s);
}
int main(void) { child(20, 30, 0); child(3, 30, 0); child(0, 40, 0); child(20, 20, 1); child(12, 300, 1); return 0; }
