//! Control that comes to code in ways that no branch of that code tells: `longjmp`, exceptions, other stacks, coroutines, handlers of
//! signals, children. And jumps to labels that are data.
//!
//! To an optimiser of binaries these are no ways of the function's graph. It must accept the profile of each function all the same.

use std::fs;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output};
use trommel_conformance::recorded::Recorded;

use super::optimisers::accepted;
use super::{Test, llvm, llvms, run, said, text};

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "ways: bolt accepts code that is entered in its midst",
        entered,
    ),
    (
        "ways: bolt accepts labels that are data, and children with a stack of their own",
        labels,
    ),
];

/// Each function comes to its midst in one way. `rows` has a row of csv for each of them.
const SOURCE: &str = r#"
#include <coroutine>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#define ALONE __attribute__((noinline))
static volatile long sink;
static jmp_buf back;
static long own[8];
extern "C" __attribute__((returns_twice)) int keep(long *);
extern "C" __attribute__((noreturn)) void leap(long *, int);
asm(".text\n.type keep,@function\nkeep: mov %rbx,(%rdi)\n mov %rbp,8(%rdi)\n mov %r12,16(%rdi)\n mov %r13,24(%rdi)\n"
    " mov %r14,32(%rdi)\n mov %r15,40(%rdi)\n lea 8(%rsp),%rdx\n mov %rdx,48(%rdi)\n mov (%rsp),%rdx\n mov %rdx,56(%rdi)\n"
    " xor %eax,%eax\n ret\n.size keep,.-keep\n"
    ".type leap,@function\nleap: mov %esi,%eax\n mov (%rdi),%rbx\n mov 8(%rdi),%rbp\n mov 16(%rdi),%r12\n mov 24(%rdi),%r13\n"
    " mov 32(%rdi),%r14\n mov 40(%rdi),%r15\n mov 48(%rdi),%rsp\n jmp *56(%rdi)\n.size leap,.-leap\n");
ALONE static void far(int n) { sink += n; if (n & 1) longjmp(back, n); }
ALONE static void near(int n) { sink -= n; if (n & 1) leap(own, n); }
ALONE static void jumps() { for (volatile int i = 0; i < 40; i = i + 1) { int r = setjmp(back); sink += 3; if (!r) far(i); sink += r; } }
ALONE static void own_jumps() { for (volatile int i = 0; i < 40; i = i + 1) { int r = keep(own); sink += 5; if (!r) near(i); sink += r; } }
ALONE static void throws(int n) { sink += n; if (n % 3 == 0) throw std::runtime_error("3"); if (n % 3 == 1) throw n; }
ALONE static void catches() { for (int i = 0; i < 30; i++) try { throws(i); sink += 7; } catch (int n) { sink += n; } catch (std::exception &) { sink -= 1; } }
static ucontext_t first, other;
ALONE static void turns() { for (int i = 0; i < 20; i++) { sink += i; swapcontext(&other, &first); if (sink & 1) sink += 2; } }
ALONE static void switches() {
  static char stack[65536];
  getcontext(&other); other.uc_stack.ss_sp = stack; other.uc_stack.ss_size = sizeof stack; other.uc_link = &first;
  makecontext(&other, turns, 0);
  for (int i = 0; i < 20; i++) { sink ^= i; swapcontext(&first, &other); if (sink & 2) sink += 1; }
}
static void over(int, siginfo_t *, void *at) { ((ucontext_t *)at)->uc_mcontext.gregs[REG_RIP] += 7; }
ALONE static void faults() { for (int i = 0; i < 20; i++) { sink += i; asm volatile(".byte 0x8b, 0x04, 0x25, 8, 0, 0, 0" ::: "eax"); sink += 9; if (sink & 1) sink += 3; } }
static void on(int) { sink += 1; }
ALONE static void signals() { for (int i = 0; i < 20; i++) { raise(SIGUSR1); sink += 4; } }
ALONE static void children() {
  for (int i = 0; i < 4; i++) {
    pid_t pid = i & 1 ? vfork() : fork();
    if (!pid) _exit(i);
    int status; waitpid(pid, &status, 0); sink += status;
  }
}
struct Values {
  struct promise_type {
    long now;
    Values get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(long n) { now = n; return {}; }
    void return_void() {}
    void unhandled_exception() { throw; }
  };
  std::coroutine_handle<promise_type> at;
};
ALONE static Values squares(long n) { for (long i = 0; i < n; i++) { if (i % 3) co_yield i * i; else co_yield -i; } }
ALONE static Values odd_twice(Values of) { for (of.at.resume(); !of.at.done(); of.at.resume()) { long n = of.at.promise().now; co_yield n; if (n & 1) co_yield n + 1; } }
ALONE static void coroutines() {
  for (int i = 0; i < 5; i++) {
    Values first = squares(20), all = odd_twice(first);
    for (all.at.resume(); !all.at.done(); all.at.resume()) sink += all.at.promise().now;
    all.at.destroy(); first.at.destroy();
  }
}
int main() {
  struct sigaction fault = {}; fault.sa_sigaction = over; fault.sa_flags = SA_SIGINFO; sigaction(SIGSEGV, &fault, 0);
  signal(SIGUSR1, on);
  for (int i = 0; i < 3; i++) { jumps(); own_jumps(); catches(); switches(); coroutines(); faults(); signals(); }
  children();
  printf("%ld\n", sink);
}
"#;

/// An interpreter with a table of labels. Children by the system call itself, in the memory of the parent, on a stack of their own.
const LABELS: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#define ALONE __attribute__((noinline))
static volatile long sink, told;
static char stack[65536] __attribute__((aligned(16)));
ALONE static long interpret(const unsigned char *p, long turns) {
  static void *const ops[] = {&&add, &&sub, &&mul, &&back, &&end};
  long acc = 0;
#define NEXT goto *ops[*p++]
  NEXT;
add: acc += 3; NEXT;
sub: acc -= 1; NEXT;
mul: acc = acc * 5 % 1000003; NEXT;
back: if (--turns > 0) p -= 6; NEXT;
end: return acc;
}
ALONE static long work(long n) { long s = 0; for (long i = 0; i < n; i++) s += i % 7 ? i : -i; return s; }
static int child(void *n) { told = work(100 + (long)n); return (long)n; }
ALONE static long bare(void) {
  long pid;
  __asm__ volatile("xor %%r10d, %%r10d\n xor %%r8d, %%r8d\n syscall\n test %%rax, %%rax\n jnz 1f\n mov $50, %%edi\n call *%[f]\n"
                   " mov %%eax, %%edi\n and $63, %%edi\n mov $60, %%eax\n syscall\n1:"
                   : "=a"(pid) : "a"(SYS_clone), "D"(CLONE_VM | SIGCHLD), "S"(stack + sizeof stack), "d"(0), [f] "b"(work)
                   : "rcx", "r8", "r10", "r11", "memory");
  return pid;
}
int main(void) {
  static const unsigned char code[] = {0, 1, 2, 0, 0, 3, 4};
  for (int i = 0; i < 20; i++) sink += interpret(code, 20 + i);
  for (long i = 0; i < 3; i++) {
    int status;
    waitpid(clone(child, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)i), &status, 0);
    sink += WEXITSTATUS(status) + told;
    waitpid(bare(), &status, 0);
    sink += WEXITSTATUS(status);
  }
  printf("%ld\n", sink);
}
"#;

fn entered() -> Result<(), String> {
    accepts("clang++", &["-std=c++20"], ("app.cc", SOURCE))
}

/// At a fixed address: BOLT 19 cannot rewrite tables of labels elsewhere, with a profile or without.
fn labels() -> Result<(), String> {
    accepts("clang", &["-fno-pie", "-no-pie"], ("app.c", LABELS))
}

/// Requires that each BOLT uses all of the profile, in both formats, and that what it makes of the program does the same.
fn accepts(compiler: &str, flags: &[&str], (file, code): (&str, &str)) -> Result<(), String> {
    let test = "ways";
    let all = llvms("llvm-bolt", test);
    let (Some(clang), Some(lld)) = (llvm(compiler, test), llvm("ld.lld", test)) else {
        return Ok(());
    };
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = scratch.path("app");
    fs::write(scratch.path(file), code).map_err(|e| e.to_string())?;
    let mut build = Command::new(&clang);
    build.args(["-O2", "-g", "-Wl,--emit-relocs", "-Wl,--build-id"]);
    build.arg(format!("-fuse-ld={}", text(&lld)));
    build.args(flags).args([file, "-o", "app"]);
    output(build.current_dir(scratch.dir()))?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    let dir = recorded.scratch.dir();
    let direct = recorded.export("bolt", &[])?;
    let by_address = text(&recorded.export("bolt-preagg", &[])?);
    let before = run(&recorded.program, &[], dir)?;
    for bolt in all {
        let of = |e| format!("{}: {e}", bolt.display());
        let mut convert = Command::new(bolt.with_file_name("perf2bolt"));
        convert.args(["-pa", "-p", &*by_address, "-o", "app.converted", "app"]);
        let printed = said(convert.current_dir(dir)).map_err(of)?;
        if !printed.contains("traces mismatching disassembled function contents: 0") {
            return Err(of(printed));
        }
        for profile in [&direct, &recorded.scratch.path("app.converted")] {
            let out = accepted(&recorded, &bolt, profile).map_err(of)?;
            let after = run(&out, &[], dir)?;
            if before != after {
                return Err(of(format!("it prints {after} in place of {before}")));
            }
        }
    }
    Ok(())
}
