# frame -5
# Without a frame pointer, through the stack pointer alone.
    mov rax, qword ptr [rsp+8]
    mov rbp, rax
    push rax
    add dword ptr [rsp+24], 3
    pop rax
    sub qword ptr [rsp+8], 8
    jne 0x1000
----
r3 is 8 bytes at 8
r6 is 4 bytes at 16
    mov rax,rbx
    mov rbp,rbx
push rax
    add esi,3
    mov dword ptr [rsp+18h],esi
pop rax
    sub rbx,8
    mov qword ptr [rsp+8],rbx
jne 000000000000101Bh
