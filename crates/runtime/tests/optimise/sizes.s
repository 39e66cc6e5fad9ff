# frame 64
# Bytes, words, extensions, and a part of a slot, which spoils it.
    movzx eax, byte ptr [rbp-1]
    add byte ptr [rbp-1], al
    movsx ecx, word ptr [rbp-4]
    mov word ptr [rbp-4], 7
    movsxd rdx, dword ptr [rbp-8]
    add qword ptr [rbp-16], rdx
    mov dword ptr [rbp-12], 1
    mov rax, qword ptr [rbp-16]
    not byte ptr [rbp-1]
    cmovne rax, qword ptr [rbp-16]
    jne 0x1000
----
rbp = rsp + 64
r3 is 1 bytes at 63
r6 is 8 bytes at 48
r7 is 2 bytes at 60
    movzx eax,bl
    add bl,al
    mov byte ptr [rbp-1],bl
    movsx ecx,di
mov word ptr [rbp-4],7
    mov di,7
movsxd rdx,[rbp-8]
    add rsi,rdx
    mov qword ptr [rbp-10h],rsi
mov dword ptr [rbp-0Ch],1
    renew: mov rsi,qword ptr [rbp-10h]
    mov rax,rsi
    not bl
    mov byte ptr [rbp-1],bl
    cmovne rax,rsi
jne 0000000000001032h
