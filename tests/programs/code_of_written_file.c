// build: -O2 -pthread | -O2 -static -pthread
// run: file
// run: memory
// run: late
// Code in a private mapping that nobody may write, of a file that is written to: by every call, by shared mappings, through descriptors that were duplicated or came from another process, by a child and a thread; cut short, and with a hole.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
enum { AT = 4096 + 64 };
static unsigned char code[6] = {0xb8, 1, 0, 0, 0, 0xc3};  // mov eax, imm; ret
static int k = 1, fd, other, source; static int (*f)(void); static sigjmp_buf back;
static unsigned char *next(void) { code[1] = ++k; return code; }
static void look(const char *what) { int s = 0; for (int i = 0; i < 50; i++) s += f(); printf("%s %s\n", what, s == 50 * k ? "seen" : "not seen"); }
static void on_fault(int s) { siglongjmp(back, s); }
static void *writer(void *x) { (void)x; pwrite(fd, next(), 6, AT); return 0; }
static int passed(int from) {
  int two[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, two); union { char b[64]; struct cmsghdr h; } c; memset(&c, 0, sizeof c);
  struct iovec v = {"x", 1}; struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = CMSG_SPACE(sizeof(int))};
  c.h.cmsg_level = SOL_SOCKET; c.h.cmsg_type = SCM_RIGHTS; c.h.cmsg_len = CMSG_LEN(sizeof(int)); memcpy(CMSG_DATA(&c.h), &from, sizeof from);
  pid_t p = fork(); if (!p) { sendmsg(two[0], &m, 0); _exit(0); } waitpid(p, 0, 0);
  char room; v.iov_base = &room; memset(&c, 0, sizeof c); if (recvmsg(two[1], &m, 0) != 1) return -1;
  int got; memcpy(&got, CMSG_DATA(&c.h), sizeof got); close(two[0]); close(two[1]); return got;
}
int main(int n, char **a) {
  const char *how = n > 1 ? a[1] : "file"; char name[] = "written-codeXXXXXX"; int r, pipes[2]; loff_t i, j; pthread_t t;
  signal(SIGBUS, on_fault); signal(SIGSEGV, on_fault); source = memfd_create("source", 0); pipe(pipes);
  fd = strcmp(how, "memory") ? mkstemp(name) : memfd_create("code", 0); char own[64]; sprintf(own, strcmp(how, "memory") ? "%s" : "/proc/self/fd/%2$d", name, fd);
  ftruncate(fd, 3 * 4096); pwrite(fd, code, 6, AT);
  if (!strcmp(how, "late")) { close(fd); fd = -1; }  // Nobody has it open when its code is met.
  int only = open(own, O_RDONLY); unsigned char *p = mmap(0, 3 * 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, only, 0); if (!strcmp(how, "memory")) sprintf(own, "/proc/self/fd/%d", only);
  f = (int (*)(void))(p + AT);
  for (int i = 0; i < 2000; i++) f();
  look("at first");
  if (fd < 0) fd = open(own, O_RDWR);
  other = open(own, O_WRONLY); int same = dup(fd);
  pwrite(fd, next(), 6, AT); look("pwrite"); lseek(fd, AT, 0); write(fd, next(), 6); look("write");
  struct iovec v = {next(), 6}; lseek(same, AT, 0); writev(same, &v, 1); look("writev"); v.iov_base = next(); pwritev(other, &v, 1, AT); look("pwritev");
  pwrite(source, next(), 6, 0); lseek(other, AT, 0); off_t o = 0; sendfile(other, source, &o, 6); look("sendfile");
  pwrite(source, next(), 6, 0); i = 0; j = AT; if (copy_file_range(source, &i, fd, &j, 6, 0) != 6) pwrite(fd, code, 6, AT); look("copy_file_range");
  write(pipes[1], next(), 6); j = AT; splice(pipes[0], 0, fd, &j, 6, 0); look("splice");
  pthread_create(&t, 0, writer, 0); pthread_join(t, 0); look("a thread");
  next(); pid_t child = fork(); if (!child) { pwrite(fd, code, 6, AT); _exit(0); } waitpid(child, 0, 0); look("a child");
  int got = passed(other); pwrite(got, next(), 6, AT); look("a descriptor passed on");
  unsigned char *w = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); memcpy(w + AT, next(), 6); look("a shared mapping");
  close(got); close(other); close(same); close(fd); w[AT + 1] = ++k; look("with no descriptor left");
  mprotect(w, 3 * 4096, PROT_READ); mprotect(w, 3 * 4096, PROT_READ | PROT_WRITE); w[AT + 1] = ++k; look("protected in between"); munmap(w, 3 * 4096);
  fd = open(own, O_RDWR);
  ftruncate(fd, 4096); r = sigsetjmp(back, 1); if (!r) f(); printf("cut short: %d\n", r);
  ftruncate(fd, 3 * 4096); pwrite(fd, next(), 6, AT); look("grown again");
  r = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096); pwrite(fd, next(), 6, AT); look("a hole");
  truncate(own, 4096); r = sigsetjmp(back, 1); if (!r) f(); printf("cut short by name: %d\n", r);
  if (strcmp(how, "memory")) unlink(name);
}
