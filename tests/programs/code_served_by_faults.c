// build: -O2 -pthread
// Pages of code that a thread of the program fills in when they are first executed (userfaultfd): one after the other, dropped and filled in again, an instruction across two of them, and with signals on the way.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { PAGES = 8 };
static int fd, served; static volatile int ticks; static unsigned char *code;
static void on_tick(int s) { (void)s; ticks++; }
static void *server(void *x) {
  static unsigned char page[4096] __attribute__((aligned(4096))); (void)x; sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, 0);
  for (;;) {
    struct uffd_msg m; if (read(fd, &m, sizeof m) != sizeof m) return 0;
    unsigned long at = m.arg.pagefault.address & ~4095ul; int n = (at - (unsigned long)code) / 4096; char text[64]; volatile double d = n; snprintf(text, sizeof text, "%g", d); usleep(2000);
    memset(page, 0x90, 4096); page[0] = 0; page[1] = 0; page[2] = 0xc3; memcpy(page + 4000, "\xb8\0\0\0\0\xc3", 6); page[4001] = n + 1; page[4093] = 0xb8; page[4094] = n; page[4095] = 0;  // The last one goes on to the next page.
    served++; struct uffdio_copy c = {.dst = at, .src = (unsigned long)page, .len = 4096}; ioctl(fd, UFFDIO_COPY, &c);
  }
}
static long call(int n, int at) { return ((int (*)(void))(code + 4096 * n + at))(); }
int main(void) {
  fd = syscall(SYS_userfaultfd, O_CLOEXEC); if (fd < 0) { puts("none"); return 0; }
  struct uffdio_api api = {.api = UFFD_API}; ioctl(fd, UFFDIO_API, &api);
  code = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register r = {.range = {(unsigned long)code, PAGES * 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING}; ioctl(fd, UFFDIO_REGISTER, &r);
  pthread_t t; pthread_create(&t, 0, server, 0); signal(SIGALRM, on_tick);
  long s = 0; for (int n = 0; n < PAGES; n++) for (int i = 0; i < 100; i++) s += call(n, 4000);
  printf("%ld, served %d\n", s, served);
  madvise(code, PAGES * 4096, MADV_DONTNEED); s = 0; for (int n = PAGES - 1; n >= 0; n--) for (int i = 0; i < 3; i++) s += call(n, 4000);
  printf("%ld, served %d\n", s, served);
  madvise(code, PAGES * 4096, MADV_DONTNEED); s = 0; for (int n = 0; n < 4; n++) s += call(2 * n, 4093);
  printf("across %ld, served %d\n", s, served);
  // A page that is waited for when a signal comes is asked for again.
  ualarm(1000, 1000);
  for (int round = 0; round < 5; round++) { madvise(code, PAGES * 4096, MADV_DONTNEED); for (int n = 0; n < PAGES; n++) s += call(n, 4000); }
  ualarm(0, 0); printf("%ld, %s\n", s, ticks > 3 ? "ticked" : "no ticks");
}
