// Functions that are called twice in each turn, each time with a cell of its own: what they load tells who has called. ./callers TURNS [forked]
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

typedef volatile uint64_t Cell;

static Cell cells[] = {1001, 1002, 1003, 1004, 1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012};

// Without a frame.
ALONE uint64_t leaf(Cell *p) { return *p; }

ALONE void nothing(Cell *p) { (void)p; }

// Behind its prologue, where it has one.
ALONE uint64_t framed(Cell *p) {
  nothing(p);
  return *p;
}

// In front of the prologue, in the midst of it, behind it, and in the epilogue; what is in rbp is no address.
uint64_t staged(Cell *p);
__asm__(".text\n"
        ".globl staged\n"
        ".type staged, @function\n"
        "staged:\n"
        "  .cfi_startproc\n"
        "  mov (%rdi), %rax\n"
        "  push %rbp\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  .cfi_offset %rbp, -16\n"
        "  mov (%rdi), %rbp\n"
        "  sub $40, %rsp\n"
        "  .cfi_adjust_cfa_offset 40\n"
        "  mov $0x123456789abcdef, %rbp\n"
        "  mov (%rdi), %rcx\n"
        "  add $40, %rsp\n"
        "  .cfi_adjust_cfa_offset -40\n"
        "  mov (%rdi), %rdx\n"
        "  pop %rbp\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  mov (%rdi), %rsi\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size staged, . - staged\n");

// Is jumped to: its caller is that of the function which jumps.
ALONE uint64_t tail(Cell *p) { return *p; }
uint64_t hands_on(Cell *p);
__asm__(".text\n"
        ".globl hands_on\n"
        ".type hands_on, @function\n"
        "hands_on:\n"
        "  .cfi_startproc\n"
        "  jmp tail\n"
        "  .cfi_endproc\n"
        ".size hands_on, . - hands_on\n");

// Is come back to by no return.
static jmp_buf where;
ALONE void thrown(Cell *p) {
  nothing(p);
  _longjmp(where, 1);
}
ALONE uint64_t caught(Cell *p) {
  if (_setjmp(where) == 0) thrown(p);
  return *p;
}

// Calls itself, and loads on the way out.
ALONE uint64_t nested(Cell *p, int depth) {
  if (depth > 0) nested(&cells[10], depth - 1);
  return *p;
}

int main(int argc, char **argv) {
  uint64_t turns = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
  uint64_t sum = 0;
  if (argc > 2 && fork() != 0) return wait(NULL) < 0;
  for (uint64_t turn = 0; turn < turns; turn++) {
    sum += leaf(&cells[0]);
    sum += leaf(&cells[1]);
    sum += framed(&cells[2]);
    sum += framed(&cells[3]);
    sum += staged(&cells[4]);
    sum += staged(&cells[5]);
    sum += hands_on(&cells[6]);
    sum += hands_on(&cells[7]);
    sum += caught(&cells[8]);
    sum += caught(&cells[9]);
    sum += nested(&cells[11], 3);
  }
  printf("%llu\n", (unsigned long long)sum);
  return 0;
}
