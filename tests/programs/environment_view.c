// build: -O2 | -O2 -static | -O2 -no-pie
// run:
// run: one two --three -- four
// What a program sees of itself: argv, environment, auxv, open files, /proc/self, limits, masks, memory calls, clocks.
#define _GNU_SOURCE
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
extern char **environ;
static int cmp(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static unsigned sum(const char *path, int *len) { int f = open(path, O_RDONLY); unsigned h = 1; unsigned char b[4096]; ssize_t n; *len = 0; while ((n = read(f, b, sizeof b)) > 0) { for (ssize_t i = 0; i < n; i++) h = h * 31 + b[i]; *len += (int)n; } close(f); return h; }
int main(int c, char **v) {
  for (int i = 0; i < c; i++) printf("arg %s\n", v[i]); for (char **e = environ; *e; e++) printf("env %s\n", *e);
  char **e = environ; while (*e) e++; for (Elf64_auxv_t *a = (Elf64_auxv_t *)(e + 1); a->a_type; a++) { unsigned long t = a->a_type; int ptr = t == AT_PHDR || t == AT_BASE || t == AT_ENTRY || t == AT_RANDOM || t == AT_SYSINFO_EHDR || t == AT_EXECFN || t == AT_PLATFORM; printf("aux %lu %lx\n", t, ptr ? (unsigned long)(a->a_un.a_val != 0) : a->a_un.a_val); }
  printf("execfn %s platform %s\n", (char *)getauxval(AT_EXECFN), (char *)getauxval(AT_PLATFORM));
  char link[4096]; ssize_t n = readlink("/proc/self/exe", link, 4095); link[n > 0 ? n : 0] = 0; printf("exe %s\n", link);
  int len; unsigned h = sum("/proc/self/cmdline", &len); printf("cmdline %x %d\n", h, len); h = sum("/proc/self/environ", &len); printf("environ %x %d\n", h, len);
  DIR *d = opendir("/proc/self/fd"); int fd[64], k = 0; struct dirent *x; while ((x = readdir(d))) if (x->d_name[0] != '.' && k < 64) fd[k++] = atoi(x->d_name); closedir(d); qsort(fd, (size_t)k, sizeof *fd, cmp); printf("fds"); for (int i = 0; i < k; i++) printf(" %d", fd[i]); puts("");
  for (int i = 0; i < 16; i++) { struct rlimit r; if (!getrlimit(i, &r)) printf("limit %d %lx %lx\n", i, r.rlim_cur, r.rlim_max); }
  char name[17] = ""; prctl(PR_GET_NAME, name); printf("name %s personality %x dumpable %d nonewprivs %d pdeath %d\n", name, personality(0xffffffff), prctl(PR_GET_DUMPABLE), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
  prctl(PR_SET_NAME, "renamed"); prctl(PR_GET_NAME, name); puts(name);
  char *b0 = sbrk(0); if (sbrk(1 << 20) != b0) puts("brk moved"); memset(b0, 1, 1 << 20); printf("brk %d\n", (char *)sbrk(0) == b0 + (1 << 20));
  void *low = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0); printf("32bit %d\n", (unsigned long)low < 1ul << 31);
  struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a); clock_gettime(CLOCK_MONOTONIC, &b); unsigned cpu; printf("clock %d getcpu %d time %d\n", b.tv_sec > a.tv_sec || b.tv_nsec >= a.tv_nsec, getcpu(&cpu, NULL), time(NULL) > 1000000000);
  FILE *m = fopen("/proc/self/maps", "r"); char line[512]; int vs = 0; while (fgets(line, sizeof line, m)) if (strstr(line, "[vsyscall]") && strstr(line, "x")) vs = 1; fclose(m); if (vs) { long (*vt)(long *) = (long (*)(long *))0xffffffffff600400; printf("vsyscall %d\n", vt(NULL) > 1000000000); }
  fclose(stdin); close(0); int z = open("/dev/null", O_RDONLY); printf("lowest fd %d\n", z); struct rusage ru; printf("rusage %d\n", getrusage(RUSAGE_SELF, &ru));
}
