// Makes TURNS system calls, where windows end, and then computes in a child. ./calls TURNS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  uint64_t turns = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000, sum = 0;
  for (uint64_t turn = 0; turn < turns; turn++) syscall(SYS_getppid);
  if (fork() != 0) return wait(NULL) < 0;
  for (uint64_t turn = 0; turn < 100 * turns; turn++) sum = sum * 5 + (sum % 3 ? turn : 7);
  printf("%llu\n", (unsigned long long)sum);
  return 0;
}
