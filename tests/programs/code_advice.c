// build: -O2 | -O2 -static
// Code that vanishes by advice: by process_madvise on itself, in a child by MADV_WIPEONFORK and MADV_DONTFORK. Code on a page that is sealed, and that has a lock between processes.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
enum { PAGE = 4096, WIPEONFORK = 18, DONTFORK = 10 };
static sigjmp_buf faulted;
static void fault(int s) { siglongjmp(faulted, s); }
static unsigned char *page(int value) {
  unsigned char *p = mmap(0, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  p[0] = 0xb8; memcpy(p + 1, &value, 4); p[5] = 0xc3;   // mov eax,value; ret
  return p;
}
// The value that the code returns, or minus the signal.
static int call(void *p) { int s = sigsetjmp(faulted, 1); return s ? -s : ((int (*)(void))p)(); }
static void in_child(void *p) {
  fflush(stdout);
  if (!fork()) { printf("child %d\n", call(p)); fflush(stdout); _exit(0); }
  wait(0); printf("parent %d\n", call(p));
}
int main(void) {
  struct sigaction a = {.sa_handler = fault, .sa_flags = SA_NODEFER}; sigaction(SIGSEGV, &a, 0);
  unsigned char *p = page(1); printf("%d\n", call(p));
  int self = syscall(SYS_pidfd_open, getpid(), 0); struct iovec all = {p, PAGE};
  if (syscall(SYS_process_madvise, self, &all, 1, MADV_DONTNEED, 0) == PAGE) printf("%d\n", call(p)); else printf("-11\n");
  p = page(2); printf("%d\n", call(p)); madvise(p, PAGE, WIPEONFORK); in_child(p);
  p = page(3); printf("%d\n", call(p)); madvise(p, PAGE, DONTFORK); in_child(p);
  p = page(4); printf("%d\n", call(p)); int *word = (int *)(p + 512); struct timespec soon = {0, 1000};
  long r = syscall(SYS_futex, word, 0, 1, 0); printf("wait %ld %d\n", r, errno); call(p);
  r = syscall(SYS_futex, word, 0, 0, &soon); printf("wait %ld %d\n", r, errno); call(p);
  r = syscall(SYS_futex, word, 1, 1); printf("wake %ld\n", r);
  p = page(5); printf("%d\n", call(p)); syscall(462, p, PAGE, 0);   // mseal
  p[1] = 6; printf("%d\n", call(p)); p[1] = 7; printf("%d\n", call(p));
}
