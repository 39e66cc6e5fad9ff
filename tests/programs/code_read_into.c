// build: -O2 | -O2 -static
// The kernel writes where code was executed: read, readv, pread, recv, recvmsg, a datagram that comes once, a child's status, stat, pipe, and a signal's frame.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned char *p; static long s; static int calls;
static void on_usr1(int sig) { (void)sig; calls++; }
static unsigned char *code(int k) { static unsigned char c[7] = {0x8d, 0x87, 0, 0, 0, 0, 0xc3}; memcpy(c + 2, &k, 4); return c; }
static void call(int n) { for (int i = 0; i < 3; i++) s = (s * 31 + ((int (*)(int))(p + 4096 * i))(n)) & 0xffffffffffff; }
static void made(long n, const char *what) { call(n); if (n < 0) printf("%s: %s\n", what, strerror(errno)); s += n; }
int main(void) {
  static unsigned char page[3 * 4096]; int two[2], fd = memfd_create("x", 0), status;
  p = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 3; i++) memcpy(p + 4096 * i, code(i), 7);
  call(1);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 3; i++) memcpy(page + 4096 * i, code(round * 3 + i), 7);
    pwrite(fd, page, sizeof page, 0); lseek(fd, 0, 0); made(read(fd, p, sizeof page), "read");
    page[2] ^= 5; pwrite(fd, page, sizeof page, 0); made(pread(fd, p, sizeof page, 0), "pread");
    page[4098] ^= 3; pwrite(fd, page, sizeof page, 0); lseek(fd, 0, 0);
    struct iovec v[3] = {{p, 4096}, {p + 4096, 100}, {p + 4196, 4096}}; made(readv(fd, v, 3), "readv");
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, two)) return 1;
    write(two[0], code(round + 50), 7); write(two[0], code(round + 60), 7);
    made(recv(two[1], p + 4096, 7, MSG_DONTWAIT), "recv"); made(recv(two[1], p + 8192, 7, MSG_DONTWAIT), "recv");
    write(two[0], page, 300); struct msghdr m = {.msg_iov = v, .msg_iovlen = 2}; made(recvmsg(two[1], &m, MSG_DONTWAIT), "recvmsg");
    close(two[0]); close(two[1]);
    pid_t child = fork(); if (!child) _exit(round + 7);
    made(waitpid(child, (int *)(p + 100), 0) == child, "wait"); s += *(int *)(p + 100);
    made(fstat(fd, (struct stat *)(p + 4096 + 400)), "fstat"); s += ((struct stat *)(p + 4096 + 400))->st_size;
    made(pipe((int *)(p + 8192 + 40)), "pipe"); close(*(int *)(p + 8192 + 40)); close(*(int *)(p + 8192 + 44));
    made(getrandom(p + 4090, 6, 0), "getrandom"); made(fstat(fd, (struct stat *)8), "bad address"); errno = 0;
    int k = round; lseek(fd, 0, 0); memcpy(page + 8192, code(k), 7); pwrite(fd, page, sizeof page, 0); made(read(fd, p + 8, 1) , "one");
  }
  printf("%ld\n", s);
  // A handler's frame where code is.
  stack_t st = {.ss_sp = p + 1024, .ss_size = 2 * 4096 + 3000}; struct sigaction sa;
  memset(&sa, 0, sizeof sa); sa.sa_handler = on_usr1; sa.sa_flags = SA_ONSTACK; sigaction(SIGUSR1, &sa, 0);
  p = mmap(0, 4 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 3; i++) memcpy(p + 4096 * i, code(i), 7);
  st.ss_sp = p + 1024; st.ss_size = 3 * 4096; sigaltstack(&st, 0);
  for (int i = 0; i < 20; i++) { raise(SIGUSR1); for (int k = 0; k < 3; k++) memcpy(p + 4096 * k, code(i + k), 7); call(i); }
  printf("%ld %d\n", s, calls);
  (void)status;
}
