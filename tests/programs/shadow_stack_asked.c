// Asks for a shadow stack in the middle of a run, and ends without returning through it. The loop before
// fills several chunks of records: leaving must not take the place where one was full for the program's.
// build: -O2 | -O0 -static
int main(void) {
  volatile int sum = 0;
  for (int i = 0; i < 40000; i++) sum += i;
  // ARCH_SHSTK_ENABLE, ARCH_SHSTK_SHSTK: 0, or an error where there is none. Nothing returns after it.
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(158L), "D"(0x5001L), "S"(1L) : "rcx", "r11", "memory");
  char text[3] = { result == 0 ? 'y' : 'n', '0' + sum % 10, '\n' };
  __asm__ volatile("syscall" : "=a"(result) : "a"(1L), "D"(1L), "S"(text), "d"(3L) : "rcx", "r11", "memory");
  __asm__ volatile("syscall" : : "a"(231L), "D"(4L) : "rcx", "r11", "memory");
  __builtin_unreachable();
}
