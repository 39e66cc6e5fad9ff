// build: -O1 -w
// A thread takes away the memory of its restartable sequences, which the kernel writes when it interrupts the thread, and ends at once. Or it takes away its right to that memory for a moment, or fails to: then it is told its processor as before.
#define _GNU_SOURCE
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern const ptrdiff_t __rseq_offset; extern const unsigned __rseq_size;
enum { SIZE = 1 << 16, EACH = 8, SIGNATURE = 0x53053053, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS, TO = MREMAP_MAYMOVE | MREMAP_FIXED };
struct call { long number, args[6]; };
// A call, and the thread's end without a stack. Two calls, and whether one failed.
void end_by(const struct call *); long two(const struct call *, const struct call *);
__asm__(".text\n.macro load\n mov (%rdi),%rax\n mov 24(%rdi),%rdx\n mov 32(%rdi),%r10\n mov 40(%rdi),%r8\n mov 48(%rdi),%r9\n mov 16(%rdi),%rsi\n mov 8(%rdi),%rdi\n syscall\n.endm\n"
  "end_by:\n load\n mov $60,%eax\n xor %edi,%edi\n syscall\n"
  "two:\n push %rbx\n push %rsi\n load\n mov %rax,%rbx\n pop %rdi\n load\n or %rbx,%rax\n sar $63,%rax\n pop %rbx\n ret\n");
static int killed, all;
static int ended(const char *name, pid_t pid) {
  int status; waitpid(pid, &status, 0); all++; killed += WIFSIGNALED(status);
  return WIFSIGNALED(status) ? 0 : WEXITSTATUS(status);
}
static int ends(void *p) {
  struct call *c = p, area = {SYS_rseq, {c->args[0] + SIZE / 2, 32, 0, SIGNATURE}}, other = {SYS_getpid};
  if (two(&area, &other)) _exit(1);
  end_by(c); return 0;
}
static void kind(const char *name, struct call c) {
  int failed = 0;
  for (int i = 0; i < EACH; i++) {
    pid_t pid = fork();
    if (!pid) {
      char *s = mmap(0, SIZE, PROT_READ | PROT_WRITE, PRIVATE, -1, 0); c.args[0] = (long)s; c.args[1] = SIZE;
      clone(ends, s + SIZE, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM, &c); usleep(1000); _exit(0);
    }
    failed |= ended(name, pid);
  }
  printf("%s: %d\n", name, failed);
}
// The kernel tells a thread its processor when it moves it.
static int is_told(void) {
  volatile unsigned *area = (void *)((char *)__builtin_thread_pointer() + __rseq_offset); cpu_set_t before; int told = 1;
  sched_getaffinity(0, sizeof before, &before);
  for (int round = 0; round < 2; round++) for (unsigned n = 0; n < 64; n++) {
    cpu_set_t one; CPU_ZERO(&one); CPU_SET(n, &one);
    if (CPU_ISSET(n, &before) && !sched_setaffinity(0, sizeof one, &one)) { usleep(1); told &= !round || area[1] == n && area[0] == n; }
  }
  return told;
}
static void stays(const char *name, struct call first, struct call then, long failing) {
  pid_t pid = fork();
  if (!pid) _exit(two(&first, &then) != failing ? 2 : !is_told());
  printf("%s: %d\n", name, ended(name, pid));
}
int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  kind("unmapped", (struct call){SYS_munmap}); kind("forbidden", (struct call){SYS_mprotect, {0, 0, PROT_NONE}}); kind("read only", (struct call){SYS_mprotect, {0, 0, PROT_READ}});
  kind("mapped anew", (struct call){SYS_mmap, {0, 0, PROT_NONE, PRIVATE | MAP_FIXED, -1, 0}}); kind("moved", (struct call){SYS_mremap, {0, 0, SIZE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP}});
  kind("shrunk", (struct call){SYS_mremap, {0, 0, 4096, 0}}); kind("guarded", (struct call){SYS_madvise, {0, 0, 102}});
  long page = (long)((char *)__builtin_thread_pointer() + __rseq_offset) & -4096, aside = (long)mmap(0, 4096, PROT_NONE, PRIVATE, -1, 0);
  struct call writable = {SYS_mprotect, {page, 4096, PROT_READ | PROT_WRITE}}, nothing = {SYS_getpid};
  if (__rseq_size) {
    stays("nothing", nothing, nothing, 0); stays("forbidden and allowed", (struct call){SYS_mprotect, {page, 4096, PROT_NONE}}, writable, 0);
    stays("read only and writable", (struct call){SYS_mprotect, {page, 4096, PROT_READ}}, writable, 0); stays("refused", (struct call){SYS_munmap, {page + 1, 4096}}, nothing, -1);
    stays("there and back", (struct call){SYS_mremap, {page, 4096, 4096, TO, aside}}, (struct call){SYS_mremap, {aside, 4096, 4096, TO, page}}, 0);
    stays("guarded for a moment", (struct call){SYS_madvise, {page, 4096, 102}}, (struct call){SYS_madvise, {page, 4096, 103}}, 0);
  }
  // The kernel ends a process if it interrupts it in between: hardly ever in so few instructions.
  printf("%s\n", killed * 20 > all ? "often killed" : "goes well");
  if (killed * 20 > all) fprintf(stderr, "%d of %d killed\n", killed, all);
}
