# Every way in which a load can be counted, with flags dead and live, in a program that does the same each time: it has
# no library, and reads nothing that the kernel makes up.
.intel_syntax noprefix
.data
.balign 64
words:
    .quad 1, 2, 3, -4, 0x8000000000000005, 6, 7, 8
    .quad 0x1122334455667788, 10, 11, 12, 13, 14, 15, 16
bytes:
    .ascii "the quick brown fox jumps over the lazy dog, and goes home again"
table:
    .quad first, second, third, fourth, fifth
object:
    .quad table
sum:
    .quad 0
.text
.globl _start
_start:
    mov r15d, 700
again:
    # What is loaded differs from round to round.
    imul eax, r15d, 0x9e3779b1
    shr eax, 27
    lea rbx, [rip + words]
    mov rsi, [rbx + rax * 2 - 0 + 0]
    mov edi, [rbx + rax]
    movzx r8d, byte ptr [rbx + rax]
    movsx r9, word ptr [rbx + rax]
    movsxd r10, dword ptr [rbx + rax]
    mov r11b, [rbx + rax]
    mov r12w, [rbx + rax]
    add rsi, [rip + sum]
    imul rdi, [rip + words + 16]
    mov [rip + sum], rsi
    # Flags that live after loads, the carry alone among them.
    cmp r15d, 300
    mov rcx, [rbx + 8]
    mov rdx, [rbx + 16]
    ja 1f
    mov rbp, [rbx + 24]
    add rsi, rbp
1:  add rcx, -1
    mov r13, [rbx + 40]
    inc r13
    mov r14, [rbx + 48]
    adc r13, r14
    mov rax, [rbx + 56]
    adc rax, [rbx + 64]
    setc al
    movzx eax, al
    add [rip + sum], rax
    test r15d, 1
    cmovz rcx, [rbx + 72]
    mov rdx, [rbx]
    cmovnz rdx, [rbx + 80]
    # A counter of a loop that carries.
    mov ecx, 5
    xor r8d, r8d
    clc
2:  mov rax, [rbx + rcx * 8]
    adc r8, rax
    dec ecx
    jnz 2b
    # Vectors and the stack of the x87.
    movsd xmm1, [rbx + 64]
    movss xmm9, [rbx + 72]
    movups xmm2, [rbx + 3]
    movq xmm11, [rbx + 80]
    paddd xmm2, [rbx + 64]
    addsd xmm1, [rip + words]
    cvtsi2sd xmm3, dword ptr [rbx]
    fld qword ptr [rbx + 64]
    fadd dword ptr [rbx]
    fstp st(0)
    # Through rax, by strings, from the stack.
    lea rsi, [rip + bytes]
    mov eax, r15d
    and eax, 31
    add rsi, rax
    lodsb
    lodsw
    lodsd
    lodsq
    lea rbx, [rip + bytes]
    mov al, 9
    xlatb
    mov rax, 0x1234
    xchg rax, [rip + sum]
    mov ecx, 3
    xadd [rip + sum], ecx
    xchg cl, [rip + sum]
    push rax
    pushw 0x77
    popw cx
    pop rdx
    push rsp
    pop rsp
    lea rsp, [rsp - 8]
    lea rsp, [rsp + 8]
    mov eax, 77
    xor edx, edx
    div dword ptr [rip + words + 8]
    mov rax, [rip + words + 8]
    cqo
    idiv qword ptr [rip + words + 16]
    call frame
    # Calls by a method table, in each of the registers.
    lea rdi, [rip + object]
    mov rax, [rdi]
    cmp r15d, 100
    call [rax]
    mov rcx, [rdi]
    call [rcx + 8]
    mov rdx, [rdi]
    call [rdx + 16]
    mov rbx, [rdi]
    test r15d, 4
    jz 3f
    call [rbx + 24]
3:  mov r12, [rdi]
    call [r12 + 8]
    # A jump is no call, whatever its operand looks like.
    mov rax, [rdi]
    jmp [rax + 32]
    ud2
fifth:
    mov rcx, [rdi]
    dec r15d
    jnz again
    xor edi, edi
    mov eax, 231
    syscall

frame:
    push rbp
    mov rbp, rsp
    push rbx
    push r12
    push r13
    mov rbx, [rbp]
    mov r12, [rbp + 8]
    lea r13, [rbx + r12]
    # All registers but the stack's in one piece of code.
    mov rax, [rip + words]
    mov rcx, [rip + words + 8]
    mov rdx, [rip + words + 16]
    mov rsi, [rip + words + 24]
    mov rdi, [rip + words + 32]
    mov r8, [rip + words + 40]
    mov r9, [rip + words + 48]
    mov r10, [rip + words + 56]
    mov r11, [rip + words + 64]
    lea r14, [rip + words]
    mov r14, [r14 + 8]
    add rax, rcx
    pop r13
    pop r12
    pop rbx
    leave
    ret

first:
    mov rax, [rip + words]
    jb 4f
    inc rax
4:  ret
second:
    mov r9d, [rcx]
    ret
third:
    add rdx, [rip + sum]
    ret
fourth:
    movzx eax, word ptr [rbx]
    bswap eax
    ret
.section .note.GNU-stack,"",@progbits
