// build: -O2 -pthread -w | -O2 -static -pthread -w
// The kernel writes where code was executed, at a time of its own or where a call does not name it: at a thread's end, at a migration, behind pointers in structures, through rings of buffers, into sets of bits, and to locks.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#define P(n) (base + 4096 * (n))
static char *base;
static void hot(char *at) { memcpy(at, "\xb8\1\0\0\0\xc3", 6); int (*f)(void) = (void *)at; int s = 0; for (int i = 0; i < 300; i++) s += f(); if (s != 300) puts("wrong sum"); }
static void say(const char *what, long r) { printf("%s: %ld %s\n", what, r, r < 0 ? strerror(errno) : "ok"); }
static int alone(void *x) { if (x) syscall(SYS_set_robust_list, x, 24); hot(P(4) + 4000); hot(P(5) + 4000); syscall(SYS_exit, 0); return 0; }
static void *migrates(void *x) {
  unsigned *area = (void *)P(8); int (*f)(void) = (void *)(P(8) + 2000); extern ptrdiff_t __rseq_offset; extern unsigned __rseq_size;
  syscall(334, (char *)__builtin_thread_pointer() + __rseq_offset, 32, 1, 0x53053053); hot(P(8) + 2000);
  say("register", syscall(334, area, 32, 0, 0x53053053)); int s = 0;
  for (int i = 0; i < 400; i++) { cpu_set_t c; CPU_ZERO(&c); CPU_SET(i & 1, &c); sched_setaffinity(0, sizeof c, &c); s += f(); hot(P(8) + 2000); }
  printf("migrations: %d %s\n", s, area[1] < 4096 ? "known" : "unknown"); syscall(334, area, 32, 1, 0x53053053); return x;
}
static long locked(unsigned *w, int op) { hot((char *)w + 2000); return syscall(SYS_futex, w, op, 0, 0, 0, 0); }
int main(void) {
  base = mmap(0, 4096 * 64, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); pthread_t t;
  // A thread without a library: its id and its robust locks lie on pages with code.
  int *id = (void *)P(4); unsigned *lock = (void *)P(5); struct { void *next; long offset; void *pending; } head = {&head, (char *)lock - (char *)P(5), 0}; static char stack[65536] __attribute__((aligned(16)));
  struct { void *next; } *entry = (void *)(P(5) + 64); head.next = entry; head.offset = -64; entry->next = &head;
  for (int i = 0; i < 20; i++) {
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID; *id = -1; *lock = 0; hot(P(4) + 4000);
    clone(alone, stack + sizeof stack, flags, &head, id, 0, id); for (int k; (k = *(volatile int *)id);) syscall(SYS_futex, id, FUTEX_WAIT, k, 0, 0, 0);
  }
  printf("ends: %d\n", *id);
  int who = 0; unsigned before = *lock; printf("not the owner's: %#x\n", before);
  pthread_create(&t, 0, migrates, 0); pthread_join(t, 0);
  struct ifreq none; struct ifconf ifc = {.ifc_len = 400, .ifc_buf = P(10)}; int sock = socket(AF_INET, SOCK_DGRAM, 0); hot(P(10) + 4000); say("SIOCGIFCONF", ioctl(sock, SIOCGIFCONF, &ifc));
  int sem = semget(IPC_PRIVATE, 8000, 0600); hot(P(15) + 4000); if (sem >= 0) { say("GETALL", semctl(sem, 0, GETALL, P(12))); semctl(sem, 0, IPC_RMID); }
  unsigned *w = (void *)P(18); *w = 0; say("TRYLOCK_PI", locked(w, FUTEX_TRYLOCK_PI)); say("UNLOCK_PI", locked(w, FUTEX_UNLOCK_PI)); say("LOCK_PI", locked(w, FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG)); printf("owned %d\n", (*w & 0x3fffffff) == syscall(SYS_gettid)); say("UNLOCK_PI", locked(w, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG)); say("LOCK_PI2", locked(w, 13)); 
  hot(P(20) + 4000); say("WAKE_OP", syscall(SYS_futex, P(19), FUTEX_WAKE_OP, 1, 1, P(20), FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 0))); printf("%d\n", *(int *)P(20));
  int pipes[2]; pipe(pipes); write(pipes[1], "x", 1); struct timeval now = {0, 0}; fd_set *set = (void *)(P(22) + 8); FD_SET(pipes[0], set); FD_SET(pipes[1], set); hot(P(22) + 4000); say("select", select(64, set, 0, 0, &now)); printf("%d %d\n", !!FD_ISSET(pipes[0], set), !!FD_ISSET(pipes[1], set));
  hot(P(23) + 4000); struct timespec soon = {0, 0}; FD_SET(pipes[0], (fd_set *)P(23)); say("pselect", pselect(64, (fd_set *)P(23), 0, 0, &soon, 0));
  pid_t kid = fork(); if (!kid) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); _exit(0); } int status; waitpid(kid, &status, 0);
  struct iovec *v = (void *)P(26), whole = {P(28), 4096}; hot(P(28) + 4000); say("GETREGSET", ptrace(PTRACE_GETREGSET, kid, 1, &whole)); hot(P(29) + 4000); say("GETREGS", ptrace(PTRACE_GETREGS, kid, 0, P(29))); hot(P(30) + 4000); say("PEEK", syscall(SYS_ptrace, PTRACE_PEEKDATA, kid, base, P(30))); ptrace(PTRACE_CONT, kid, 0, 0); waitpid(kid, &status, 0);
  aio_context_t c = 0; int f = memfd_create("file", 0); write(f, "some text of a file", 19); 
  if (!syscall(SYS_io_setup, 8, &c)) {
    hot(P(34) + 4000); struct iocb b = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = f, .aio_buf = (long)P(34), .aio_nbytes = 19}, *list[1] = {&b}; struct io_event *e = (void *)P(35); hot(P(35) + 4000);
    say("io_submit", syscall(SYS_io_submit, c, 1, list)); say("io_getevents", syscall(SYS_io_getevents, c, 1, 1, e, 0)); printf("%ld %.19s\n", (long)e->res, P(34)); hot(P(34) + 4000); syscall(SYS_io_destroy, c);
  }
  (void)none; (void)who; (void)v;
}
