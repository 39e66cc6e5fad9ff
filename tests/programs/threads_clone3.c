// Raw clone and clone3 as run-time systems use them: own stacks, TLS by FS, the thread's id written and cleared by the kernel, with nothing of libc in the thread.
// build: -O2 -fno-stack-protector | -O2 -static -fno-stack-protector
#define _GNU_SOURCE
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static long call3(long n, long a, long b, long c) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory"); return r; }
struct block { unsigned long self; volatile int tid, parent_tid, seen, go; unsigned long result; };
__attribute__((used)) static void thread_main(struct block *b) { unsigned long fs; __asm__("mov %%fs:0, %0" : "=r"(fs)); unsigned long s = fs == (unsigned long)b; for (int i = 0; i < 5000; i++) s = s * 31 + (i % 7 ? i : 3); b->result = s; b->seen = (int)call3(SYS_gettid, 0, 0, 0); call3(SYS_exit, 0, 0, 0); }
// rbx, rbp and r12-r15 must reach the thread as they were.
long start(long number, long a, long b, long c, long d, long e, struct block *arg);
__asm__(".text\nstart: push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n push %rbp\n mov 56(%rsp), %rbx\n mov $0x1212, %r12\n mov $0x1515, %r15\n mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n mov %r8, %r10\n mov %r9, %r8\n syscall\n test %rax, %rax\n jnz 1f\n cmp $0x1212, %r12\n jne 2f\n cmp $0x1515, %r15\n jne 2f\n xor %ebp, %ebp\n mov %rbx, %rdi\n call thread_main\n2: ud2\n1: pop %rbp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n ret\n");
int main(void) {
  const unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  char *stacks = mmap(NULL, 64 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); static struct block b[64]; int bad = 0; unsigned long sum = 0;
  for (int r = 0; r < 8; r++) { for (int i = 0; i < 64; i++) { struct block *p = &b[i]; memset(p, 0, sizeof *p); p->self = (unsigned long)p; p->tid = -1; long t; char *stack = stacks + ((long)i << 16);
      if (i & 1) { struct clone_args a = {.flags = flags, .stack = (unsigned long)stack, .stack_size = 65536, .tls = (unsigned long)p, .parent_tid = (unsigned long)&p->parent_tid, .child_tid = (unsigned long)&p->tid}; t = start(SYS_clone3, (long)&a, sizeof a, 0, 0, 0, p); }
      else t = start(SYS_clone, (long)flags, (long)(stack + 65536), (long)&p->parent_tid, (long)&p->tid, (long)p, p);
      if (t < 0) { printf("failed %ld\n", t); return 2; } if (p->parent_tid != t) bad++; }
    for (int i = 0; i < 64; i++) { int v; while ((v = b[i].tid)) syscall(SYS_futex, &b[i].tid, FUTEX_WAIT, v, NULL, NULL, 0); if (b[i].seen != b[i].parent_tid) bad++; sum += b[i].result; } }
  printf("%lx bad %d\n", sum, bad);
  printf("%ld %ld\n", syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0), syscall(SYS_clone3, NULL, 64));
}
