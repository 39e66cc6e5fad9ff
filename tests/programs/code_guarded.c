// build: -O2 -pthread | -O2 -static -pthread
// Guard regions (MADV_GUARD_INSTALL) on pages with code: execution is a fault of the program's, and a removed guard leaves a fresh page.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
enum { PAGE = 4096, INSTALL = 102, REMOVE = 103, OFTEN = 3000 };
static sigjmp_buf faulted;
static char *volatile fault_at;
static void fault(int s, siginfo_t *i, void *c) { fault_at = i->si_addr; siglongjmp(faulted, i->si_code); }
static void put(char *p, int value) { p[0] = 0xb8; memcpy(p + 1, &value, 4); p[5] = 0xc3; }   // mov eax,value; ret
static long calls(char *p, int times) { long sum = 0; while (times--) sum += ((int (*)(void))p)(); return sum; }
static void try(const char *what, char *p, char *base, int times) {
  int code = sigsetjmp(faulted, 1);
  if (!code) printf("%s: %ld\n", what, calls(p, times)); else printf("%s: fault %d at +%ld\n", what, code, (long)(fault_at - base));
}
// A page that becomes a guard while another thread executes it.
static char *raced;
static volatile int done;
static void repair(int s, siginfo_t *i, void *c) { madvise(raced, PAGE, REMOVE); put(raced, 1); }
static void *executes(void *a) { long wrong = 0; while (!done) wrong += calls(raced, 1) != 1; return (void *)wrong; }
int main(void) {
  struct sigaction a = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSEGV, &a, 0); sigaction(SIGBUS, &a, 0);
  char *p = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (madvise(p, PAGE, INSTALL)) { puts("this kernel has no guards"); return 0; }
  madvise(p, PAGE, REMOVE);
  for (int n = 0; n < 4; n++) { put(p + n * PAGE, n + 1); try("page", p + n * PAGE, p, OFTEN); }
  madvise(p + PAGE, PAGE, INSTALL);
  for (int n = 0; n < 4; n++) try("with a guard", p + n * PAGE, p, 2);
  madvise(p, 4 * PAGE, REMOVE);
  printf("fresh: %d\n", p[PAGE]); put(p + PAGE, 7); try("new code", p + PAGE, p, OFTEN);
  // Code that goes on into a page.
  char *from = p + 2 * PAGE - 64; memset(from, 0x90, 64); put(p + 2 * PAGE, 5); try("runs over", from, p, OFTEN);
  madvise(p + 2 * PAGE, PAGE, INSTALL); try("runs over", from, p, 1);
  madvise(p + 2 * PAGE, PAGE, REMOVE); put(p + 2 * PAGE, 6); try("runs over", from, p, 2);
  // An instruction that lies on both sides, and code that may not be written.
  p[2 * PAGE - 2] = 0xb8; p[2 * PAGE - 1] = 1; memcpy(p + 2 * PAGE, "\2\0\0\xc3", 4); try("on both", from, p, OFTEN);
  mprotect(p, 4 * PAGE, PROT_READ | PROT_EXEC); madvise(p + 2 * PAGE, PAGE, INSTALL); try("on both", from, p, 1); try("before", p, p, 1);
  struct iovec part = {p + 3 * PAGE, PAGE};
  long self = syscall(SYS_pidfd_open, getpid(), 0), listed = syscall(SYS_process_madvise, self, &part, 1L, INSTALL, 0);
  if (listed != PAGE) madvise(p + 3 * PAGE, PAGE, INSTALL);
  try("by a list", p + 3 * PAGE, p, 1); fflush(stdout);
  if (!fork()) { try("child", p + 3 * PAGE, p, 1); madvise(p + 3 * PAGE, PAGE, REMOVE); mprotect(p, 4 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC); put(p + 3 * PAGE, 9); try("child", p + 3 * PAGE, p, 1); fflush(stdout); _exit(0); }
  wait(0); try("parent", p + 3 * PAGE, p, 1);
  raced = p; mprotect(p, 4 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC); put(raced, 1);
  a.sa_sigaction = repair; sigaction(SIGSEGV, &a, 0);
  pthread_t thread; void *wrong; pthread_create(&thread, 0, executes, 0);
  for (int n = 0; n < 1000; n++) { madvise(raced, PAGE, INSTALL); usleep(50); }
  done = 1; pthread_join(thread, &wrong); printf("wrong: %ld\n", (long)wrong);
}
