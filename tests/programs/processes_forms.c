// build: -O2 -pthread | -O2 -static -pthread
// run: forks
// run: thread
// run: vforks
// run: chain
// run: many
// run: execs
// run: fails
// run: threadexec
// run: signals
// run: areas
// Every way to a new process or program, with what it inherits: fork (also in a thread, in chains, many at once), vfork, clone,
// exec by path, descriptor, script and thread, exec that fails, death by signals, handlers and masks.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static char *self;
static int status_of(pid_t p) { int st = -1; while (waitpid(p, &st, 0) < 0 && errno == EINTR) {} return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st); }
static int work(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i ^ (s >> 3); return s & 127; }
static volatile sig_atomic_t got; static void on(int s) { got += s; }

static void forks(void) {
  int fd[2]; if (pipe(fd)) return;
  for (int i = 0; i < 40; i++) { pid_t p = fork(); if (!p) { char b[32]; int n = sprintf(b, "%d:%d ", i, work(100 * i)); if (i == 39 && write(fd[1], b, n) != n) _exit(9); _exit(work(i * 10)); } printf("%d ", status_of(p)); }
  char b[64]; long n = read(fd[0], b, sizeof b - 1); b[n > 0 ? n : 0] = 0; printf("\n%s\n", b);
  pid_t p = fork(); if (!p) { pid_t q = fork(); if (!q) { pid_t r = fork(); if (!r) _exit(5); _exit(status_of(r) + 1); } _exit(status_of(q) + 1); } printf("nested %d\n", status_of(p));
  int *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); int own = 1;
  p = fork(); if (!p) { shared[0] = 7; own = 2; _exit(own); } printf("%d", status_of(p)); printf(" %d %d\n", shared[0], own);
  p = (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_FS | CLONE_FILES, 0, 0, 0, 0); if (!p) { close(fd[0]); _exit(11); } printf("files %d", status_of(p)); printf(" %d\n", read(fd[0], b, 1) < 0 && errno == EBADF);
  p = fork(); if (!p) { if (getppid() <= 1) _exit(1); setsid(); _exit(getsid(0) == getpid() ? 3 : 4); } printf("session %d\n", status_of(p));
}
static void *in_thread(void *a) { (void)a; for (int i = 0; i < 10; i++) { pid_t p = fork(); if (!p) _exit(work(i) % 50 + i); printf("%d ", status_of(p)); } return NULL; }
static atomic_int stop; static void *busy(void *a) { while (!stop) { free(malloc((size_t)a % 900 + 10)); a = (void *)((size_t)a * 31 + 7); } return NULL; }
static void *child_thread(void *a) { return (void *)((size_t)a + 1); }
static void thread(void) {
  pthread_t t, b[2]; for (size_t i = 0; i < 2; i++) pthread_create(&b[i], 0, busy, (void *)(i + 3));
  pthread_create(&t, 0, in_thread, 0); pthread_join(t, 0); puts("");
  // Threads in the child of a thread's fork, and its own children.
  pid_t p = fork(); if (!p) { size_t sum = 0; for (size_t i = 0; i < 6; i++) { void *r; pthread_create(&t, 0, child_thread, (void *)i); pthread_join(t, &r); sum += (size_t)r; } pid_t q = fork(); if (!q) _exit(2); _exit((int)sum + status_of(q)); }
  printf("threads in child %d\n", status_of(p)); stop = 1; pthread_join(b[0], 0); pthread_join(b[1], 0);
}
static int cloned(void *a) { *(int *)a += 5; return 6; }
static void vforks(void) {
  volatile int x = 0; for (int i = 0; i < 30; i++) { pid_t p = vfork(); if (!p) { x++; _exit(i); } if (status_of(p) != i) puts("wrong"); } printf("vfork %d\n", x);
  pid_t p = vfork(); if (!p) { execl("/bin/echo", "echo", "vforked", (char *)0); _exit(9); } printf("%d\n", status_of(p));
  p = vfork(); if (!p) { execl("/no/such", "x", (char *)0); _exit(errno); } printf("enoent %d\n", status_of(p) == ENOENT);
  p = vfork(); if (!p) { kill(getpid(), SIGKILL); _exit(1); } printf("killed %d\n", status_of(p));
  char *stack = malloc(65536); int y = 1; p = clone(cloned, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, &y); printf("clone vfork %d %d\n", status_of(p), y);
  p = clone(cloned, stack + 65536, CLONE_VM | SIGCHLD, &y); int st = status_of(p); printf("clone vm %d %d\n", st, y);
  // Dispositions of the child are its own.
  signal(SIGUSR1, on); p = vfork(); if (!p) { signal(SIGUSR1, SIG_IGN); _exit(0); } status_of(p); raise(SIGUSR1); printf("handler %d\n", got == SIGUSR1);
  posix_spawnattr_t at; posix_spawnattr_init(&at); sigset_t all; sigfillset(&all); posix_spawnattr_setsigdefault(&at, &all); sigemptyset(&all); sigaddset(&all, SIGTERM); posix_spawnattr_setsigmask(&at, &all);
  posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK); posix_spawn_file_actions_t fa; posix_spawn_file_actions_init(&fa); posix_spawn_file_actions_adddup2(&fa, 1, 2);
  char *a[] = {"sh", "-c", "grep SigBlk /proc/self/status; echo err >&2; exit 21", 0}; if (!posix_spawn(&p, "/bin/sh", &fa, &at, a, environ)) printf("spawn %d\n", status_of(p)); raise(SIGUSR1); printf("handler %d\n", got == 2 * SIGUSR1);
  char *n[] = {"nosuchprogram", 0}; printf("spawnp %d\n", posix_spawnp(&p, n[0], 0, 0, n, environ));
}
static void chain(int left) { fflush(stdout); pid_t p = fork(); if (!p) { if (left) chain(left - 1); _exit(left == 0 ? 77 : 0); } int st = status_of(p); if (left == 60) printf("chain %d\n", st); else _exit(left == 0 ? st : st); }
static void many(void) { pid_t p[50]; int fd[2]; if (pipe(fd)) return; for (int i = 0; i < 50; i++) { p[i] = fork(); if (!p[i]) { char c; close(fd[1]); if (read(fd[0], &c, 1) < 0) _exit(1); _exit(i); } } close(fd[1]); for (int i = 0; i < 50; i++) printf("%d ", status_of(p[i])); puts(""); }
static void run(const char *what, int how) {
  printf("%s ", what); fflush(stdout); pid_t p = fork();
  if (!p) {
    char *a[] = {"argv-zero", "show", "x y", 0}, *e[] = {"ONLY=this", 0};
    if (how == 0) execve(self, a, e);
    if (how == 1) fexecve(open(self, O_RDONLY), a, e);
    if (how == 2) fexecve(open(self, O_RDONLY | O_CLOEXEC), a, e);
    if (how == 3) syscall(SYS_execveat, open("/proc/self", O_RDONLY), "exe", a, e, 0);
    if (how == 4) { int d = open("/bin", O_RDONLY | O_DIRECTORY | O_CLOEXEC); char *b[] = {"relative", "ok", 0}; syscall(SYS_execveat, d, "echo", b, e, 0); }
    if (how == 5) { char *b[] = {"/bin/sh", "-c", "exec echo \"$0\" \"$1\"", "zero", "one", 0}; execve("/bin/sh", b, e); }
    if (how == 6) { char t[] = "/tmp/script-XXXXXX"; int f = mkstemp(t); char *b[] = {"script", "a b", 0}; dprintf(f, "#!/bin/sh -e\nrm -f \"$0\"; echo script \"$1\" $#\nexit 8\n"); fchmod(f, 0755); close(f); execve(t, b, e); }
    if (how == 7) { signal(SIGUSR1, SIG_IGN); signal(SIGUSR2, on); signal(SIGSEGV, SIG_IGN); sigset_t m; sigemptyset(&m); sigaddset(&m, SIGHUP); sigprocmask(SIG_SETMASK, &m, 0); char *b[] = {"grep", "-E", "^Sig(Blk|Ign|Pnd)", "/proc/self/status", 0}; raise(SIGHUP); execve("/bin/grep", b, e); }
    _exit(99);
  }
  printf("-> %d\n", status_of(p));
}
static void execs(void) { const char *n[] = {"path", "descriptor", "cloexec", "self", "directory", "shell", "script", "inherited"}; for (int i = 0; i < 8; i++) { run(n[i], i); fflush(stdout); } }
static void fails(void) {
  char *a[] = {"x", 0}; char t[] = "/tmp/noexec-XXXXXX"; int f = mkstemp(t);
  printf("%d ", execv("/no/such", a)); printf("%d\n", errno == ENOENT); printf("%d ", execv(t, a)); printf("%d\n", errno == EACCES);
  fchmod(f, 0755); if (write(f, "garbage", 7) != 7) return; printf("%d ", execv(t, a)); printf("%d\n", errno == ETXTBSY || errno == ENOEXEC); close(f); printf("%d ", execv(t, a)); printf("%d\n", errno == ENOEXEC);
  f = open(t, O_WRONLY | O_TRUNC); if (write(f, "#!/no/such/interpreter\n", 23) != 23) return; close(f); printf("%d ", execv(t, a)); printf("%d\n", errno == ENOENT); unlink(t);
  printf("%d ", execv("/", a)); printf("%d\n", errno == EACCES); printf("%d ", execve(self, (char **)8, environ)); printf("%d\n", errno == EFAULT);
  size_t n = 8 << 20; char *big = malloc(n); memset(big, 'x', n - 1); big[n - 1] = 0; char *b[] = {"x", big, 0}; printf("%d ", execve(self, b, environ)); printf("%d\n", errno == E2BIG); free(big);
  signal(SIGUSR1, on); raise(SIGUSR1); printf("after %d\n", got == SIGUSR1); pid_t p = fork(); if (!p) { b[1] = "show"; b[2] = 0; execve(self, b, environ); _exit(1); } printf("%d\n", status_of(p));
}
static void *exec_in_thread(void *a) { char *b[] = {self, "show", "from a thread", 0}; (void)a; execv(self, b); return NULL; }
static void threadexec(void) { fflush(stdout); pid_t p = fork(); if (!p) { pthread_t t, u[3]; for (size_t i = 0; i < 3; i++) pthread_create(&u[i], 0, busy, (void *)i); pthread_create(&t, 0, exec_in_thread, 0); pthread_join(t, 0); _exit(1); } printf("%d\n", status_of(p)); fflush(stdout); pthread_t t; pthread_create(&t, 0, exec_in_thread, 0); pthread_join(t, 0); puts("still here"); }
static void signals(void) {
  struct rlimit z = {0, 0}; setrlimit(RLIMIT_CORE, &z); signal(SIGUSR1, on); int sg[] = {SIGSEGV, SIGABRT, SIGKILL, SIGTERM, SIGFPE, SIGPIPE};
  for (int i = 0; i < 6; i++) { pid_t p = fork(); if (!p) { if (i == 0) *(volatile int *)8 = 1; raise(sg[i]); _exit(1); } printf("%d ", status_of(p)); } puts("");
  sigset_t m, o; sigemptyset(&m); sigaddset(&m, SIGUSR1); sigprocmask(SIG_BLOCK, &m, &o); pid_t p = fork(); if (!p) { sigsuspend(&o); _exit(got); } kill(p, SIGUSR1); printf("%d\n", status_of(p) == SIGUSR1); sigprocmask(SIG_SETMASK, &o, 0);
  p = fork(); if (!p) { raise(SIGSTOP); _exit(12); } int st; waitpid(p, &st, WUNTRACED); printf("%d ", WIFSTOPPED(st)); kill(p, SIGCONT); printf("%d\n", status_of(p));
  // Signals to a process group that forks and executes all the time.
  int ready[2]; char byte = 0; if (pipe(ready)) return;
  p = fork(); if (!p) { setpgid(0, 0); signal(SIGUSR2, on); if (write(ready[1], &byte, 1) != 1) _exit(99); for (int i = 0; i < 40; i++) { pid_t q = fork(); if (!q) { signal(SIGUSR2, SIG_IGN); execl("/bin/true", "true", (char *)0); _exit(1); } if (status_of(q)) _exit(100 + i); } _exit(40); }
  setpgid(p, p); if (read(ready[0], &byte, 1) != 1) return; int r, sent = 0; while ((r = waitpid(p, &st, WNOHANG)) == 0) { kill(p, SIGUSR2); sent++; usleep(500); } printf("%d %d\n", WIFEXITED(st) && WEXITSTATUS(st) == 40, sent > 0);
}
static void areas(void) { // Fork by threads that have come and gone, children that start some.
  for (int r = 0; r < 15; r++) { pthread_t t[4]; for (size_t i = 0; i < 4; i++) pthread_create(&t[i], 0, child_thread, (void *)i); pid_t p = fork(); if (!p) { pthread_t u; void *v; pthread_create(&u, 0, child_thread, (void *)(size_t)r); pthread_join(u, &v); _exit((int)(size_t)v); } for (int i = 0; i < 4; i++) pthread_join(t[i], 0); printf("%d ", status_of(p)); } puts("");
}
int main(int c, char **v) {
  static char path[4096]; if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return 1; self = path; setvbuf(stdout, 0, _IOLBF, 0);
  if (c > 2 && !strcmp(v[1], "show")) { char comm[32] = ""; FILE *f = fopen("/proc/self/comm", "r"); if (!f || !fgets(comm, 32, f)) return 2; printf("shown %s [%s] %d %s %s", v[0][0] == '/' ? "path" : v[0], v[2], c, getenv("ONLY") ? getenv("ONLY") : "-", comm); return 33; }
  if (c == 2 && !strcmp(v[1], "show")) return 34;
  if (c < 2) return 1;
  if (!strcmp(v[1], "forks")) forks(); else if (!strcmp(v[1], "thread")) thread(); else if (!strcmp(v[1], "vforks")) vforks(); else if (!strcmp(v[1], "chain")) chain(60); else if (!strcmp(v[1], "many")) many(); else if (!strcmp(v[1], "execs")) execs();
  else if (!strcmp(v[1], "fails")) fails(); else if (!strcmp(v[1], "threadexec")) threadexec(); else if (!strcmp(v[1], "signals")) signals(); else if (!strcmp(v[1], "areas")) areas(); return 0;
}
