// build: -O2 | -O2 -static
// Stores that change the next instruction, one behind a jump, one on the next page and one across both; rep movs over what follows; an exchange whose loaded value counts; a counter beside the code.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
typedef long (*fn)(long, void *);
static unsigned char *p;
static long call(unsigned char *at, long a, void *b) { return ((fn)at)(a, b); }
#define PUT(at, ...) ({ static const unsigned char c[] = {__VA_ARGS__}; memcpy(at, c, sizeof c); sizeof c; })
int main(void) {
  p = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  long s = 0;
  // mov [rip+1],edi ; mov eax,imm32 (changed) ; ret
  PUT(p, 0x89, 0x3d, 1, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xc3);
  for (int i = 0; i < 500; i++) s = s * 31 + call(p, i * 7, 0);
  printf("next %ld\n", s);
  // mov [rip+3],edi ; jmp +0 ; mov eax,imm32 ; ret
  PUT(p + 64, 0x89, 0x3d, 3, 0, 0, 0, 0xeb, 0, 0xb8, 0, 0, 0, 0, 0xc3);
  for (int i = 0; i < 300; i++) s = s * 31 + call(p + 64, i ^ 85, 0);
  printf("behind a jump %ld\n", s);
  // mov [rsi],edi ; jmp to the next page, whose mov eax,imm32 is what rsi points to
  PUT(p + 4096 - 32, 0x89, 0x3e, 0xeb, 28);
  PUT(p + 4096, 0xb8, 0, 0, 0, 0, 0xc3);
  for (int i = 0; i < 300; i++) s = s * 31 + call(p + 4096 - 32, i + 3, p + 4097);
  printf("next page %ld\n", s);
  // the same, with the changed instruction across the pages
  PUT(p + 8192 - 16, 0x89, 0x3e, 0xeb, 10);
  PUT(p + 8192 - 2, 0xb8, 0, 0, 0, 0, 0xc3);
  for (int i = 0; i < 300; i++) s = s * 31 + call(p + 8192 - 16, (long)i * 0x01010101, p + 8192 - 1);
  printf("across %ld\n", s);
  // mov rcx,rdi ; lea rdi,[rip+2] ; rep movsb ; then what was copied
  PUT(p + 256, 0x48, 0x89, 0xf9, 0x48, 0x8d, 0x3d, 2, 0, 0, 0, 0xf3, 0xa4, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90);
  for (int i = 0; i < 200; i++) {
    unsigned char code[8] = {0xb8, i, i * 3, 1, 0, 0xc3, 0, 0};
    s = s * 31 + call(p + 256, 6, code);
  }
  printf("rep movs %ld\n", s);
  // lea rax,[rip+3] ; xchg [rax],edi (the immediate) ; mov eax,imm32 ; add eax,edi ; ret
  PUT(p + 512, 0x48, 0x8d, 0x05, 3, 0, 0, 0, 0x87, 0x38, 0xb8, 1, 0, 0, 0, 0x01, 0xf8, 0xc3);
  for (int i = 0; i < 200; i++) s = s * 31 + call(p + 512, i, 0);
  printf("exchange %ld\n", s);
  // a counter in the page of the code: inc dword [rip+off] in a loop; then a store by C code there
  PUT(p + 1024, 0x31, 0xc0, 0xff, 0x05, 0x10, 0, 0, 0, 0x03, 0x05, 0x0a, 0, 0, 0, 0x48, 0xff, 0xcf, 0x75, 0xef, 0xc3);
  for (int i = 1; i < 60; i++) { s = s * 31 + call(p + 1024, 50 + i, 0); ++*(int *)(p + 1024 + 0x18); }
  printf("counter %ld\n", s);
  // push to a page of code: the stack in it, code at its other end
  // mov rax,rsp ; mov rsp,rsi ; push rdi ; pop rcx ; mov rsp,rax ; lea eax,[rcx+1] ; ret
  PUT(p + 2048, 0x48, 0x89, 0xe0, 0x48, 0x89, 0xf4, 0x57, 0x59, 0x48, 0x89, 0xc4, 0x8d, 0x41, 1, 0xc3);
  for (int i = 0; i < 200; i++) s = s * 31 + call(p + 2048, i, p + 4000);
  printf("stack %ld\n", s);
}
