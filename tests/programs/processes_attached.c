// build: -O2 -w -pthread | -O2 -w -static -pthread
// Processes that another one attaches to: they compute, wait in the kernel, have threads, are new or stopped. Their registers hold the program's own addresses, and they go on as before.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
struct shared { volatile long rounds, over, tid; } *shared;
extern char loop_start[], loop_end[], call_end[];
// A loop of known addresses that touches nothing but its counter.
static void __attribute__((noipa)) loop(void) {
  __asm__ volatile("loop_start: incq (%0)\n mov $1000,%%ecx\n1: dec %%ecx\n jnz 1b\n cmpq $0,8(%0)\n je loop_start\nloop_end:\n" ::"r"(shared) : "rcx", "memory");
}
static long __attribute__((noipa)) wait_call(int fd) {
  char byte; long r; __asm__ volatile("syscall\ncall_end:\n" : "=a"(r) : "0"(0), "D"(fd), "S"(&byte), "d"(1) : "rcx", "r11", "memory"); return r * 100 + byte;
}
// Until a thread waits in `read`, as the kernel says.
static void until_it_waits(int p, int fd) {
  char path[64], text[64], call[64]; snprintf(path, sizeof path, "/proc/%d/syscall", p); int n = snprintf(call, sizeof call, "0 %#x ", fd);
  for (;;) { FILE *f = fopen(path, "r"); int reads = f && fgets(text, sizeof text, f) && !strncmp(text, call, n); if (f) fclose(f); if (reads) return; usleep(200); }
}
static void *looping(void *x) { shared->tid = gettid(); loop(); return x; }
static void look(const char *what, int tid, int seize, char *from, char *to) {
  int s = 0; errno = 0;
  long r = ptrace(seize ? PTRACE_SEIZE : PTRACE_ATTACH, tid, 0, 0); printf("%s %ld\n", what, r);
  if (seize) ptrace(PTRACE_INTERRUPT, tid, 0, 0);
  waitpid(tid, &s, __WALL); struct user_regs_struct u; ptrace(PTRACE_GETREGS, tid, 0, &u);
  printf("stopped %#x, %s, gs %#llx\n", s, (char *)u.rip >= from && (char *)u.rip <= to ? "in its code" : "elsewhere", u.gs_base);
  ptrace(PTRACE_DETACH, tid, 0, 0);
}
int main(void) {
  int ends[2], s; char *whole = (char *)-1;
  shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); pipe(ends);
  for (int seize = 0; seize < 2; seize++) {
    memset((void *)shared, 0, sizeof *shared); fflush(stdout);
    int p = fork(); if (!p) { loop(); _exit(7); }
    while (shared->rounds < 100) usleep(100);
    look("one that computes", p, seize, loop_start, loop_end); long n = shared->rounds; while (shared->rounds < n + 100) usleep(100); shared->over = 1; waitpid(p, &s, 0); printf("end %#x\n", s);
    fflush(stdout); p = fork(); if (!p) _exit(wait_call(ends[0]));
    until_it_waits(p, ends[0]); look("one that waits", p, seize, call_end - 2, call_end); write(ends[1], "\x05", 1); waitpid(p, &s, 0); printf("end %#x\n", s);
    memset((void *)shared, 0, sizeof *shared); fflush(stdout);
    p = fork(); if (!p) { pthread_t t; pthread_create(&t, 0, looping, 0); long r = wait_call(ends[0]); pthread_join(t, 0); _exit(r); }
    while (shared->rounds < 100) usleep(100); until_it_waits(p, ends[0]);
    look("a thread", shared->tid, seize, loop_start, loop_end); look("the first thread", p, seize, call_end - 2, call_end); shared->over = 1; write(ends[1], "\x06", 1); waitpid(p, &s, 0); printf("end %#x\n", s);
    memset((void *)shared, 0, sizeof *shared); fflush(stdout);
    p = fork(); if (!p) { loop(); _exit(8); }
    ptrace(seize ? PTRACE_SEIZE : PTRACE_ATTACH, p, 0, 0); shared->over = 1; if (!seize) { waitpid(p, &s, 0); printf("new %#x\n", s); } ptrace(PTRACE_CONT, p, 0, 0); if (seize) { ptrace(PTRACE_INTERRUPT, p, 0, 0); } waitpid(p, &s, 0); if (WIFSTOPPED(s)) { ptrace(PTRACE_CONT, p, 0, 0); waitpid(p, &s, 0); } printf("end %#x\n", s);
  }
  // One that is nobody's, and one that has ended.
  printf("none %ld %d\n", ptrace(PTRACE_ATTACH, 0x3fffffff, 0, 0), errno);
  int p = fork(); if (!p) _exit(0); siginfo_t i; waitid(P_PID, p, &i, WEXITED | WNOWAIT); errno = 0; printf("ended %ld %d\n", ptrace(PTRACE_ATTACH, p, 0, 0), errno);
  printf("itself %ld %d\n", ptrace(PTRACE_ATTACH, getpid(), 0, 0), errno);
}
