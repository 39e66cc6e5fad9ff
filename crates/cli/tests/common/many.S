# Loads of more values than there are value counters, in 24 rounds, long enough for both ways of counting to be tried, and of one value as often.
.intel_syntax noprefix
.data
cell:
    .quad 0
seven:
    .quad 7
.text
.globl _start
_start:
    mov r14d, 24
round:
    mov r15d, 150000
    mov eax, 1
again:
    imul rax, rax, 0x5851f42d
    add rax, 0x14057b7
    mov [rip + cell], rax
    mov rbx, [rip + cell]
    add rcx, [rip + seven]
    cmp rbx, [rip + cell]
    jne wrong
    dec r15d
    jnz again
    dec r14d
    jnz round
    mov edi, 0
    mov eax, 231
    syscall
wrong:
    mov edi, 1
    mov eax, 231
    syscall
