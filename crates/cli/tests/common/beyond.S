# A call of code in a region that was not met before.
.intel_syntax noprefix
.data
word:
    .quad 7
.text
.globl _start
_start:
    mov rax, [rip + word]
    call beyond
    mov edi, 0
    mov eax, 231
    syscall
.section .beyond, "awx", @progbits
beyond:
    mov rax, [rip + word]
    ret
