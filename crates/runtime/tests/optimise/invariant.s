# frame 48
# The product of two matrices: an index of an outer loop is not multiplied in each round, and indices are extended where they are.
    mov eax, dword ptr [rbp-28]
    movsxd rcx, eax
    mov eax, dword ptr [rbp-16]
    movsxd rdx, eax
    mov rax, rdx
    shl rax, 2
    add rax, rdx
    shl rax, 6
    add rax, rcx
    mov ecx, dword ptr [rax*4+0x404040]
    mov eax, dword ptr [rbp-20]
    movsxd rsi, eax
    mov eax, dword ptr [rbp-28]
    movsxd rdx, eax
    mov rax, rdx
    shl rax, 2
    add rax, rdx
    shl rax, 6
    add rax, rsi
    mov eax, dword ptr [rax*4+0x408080]
    imul eax, ecx
    add dword ptr [rbp-24], eax
    add dword ptr [rbp-28], 1
    cmp dword ptr [rbp-28], 319
    jle 0x1000
----
rbp = rsp + 48
r3 is 4 bytes at 20
r7 is 4 bytes at 24
r8 is r0 after instruction 7
r9 is r2 after instruction 3
r10 is r6 after instruction 11
    (joined)
    movsxd rcx,ebx
    (joined)
    (joined)
    mov rdx,r9
    (joined)
    (joined)
    (joined)
    (joined)
    mov rax,r8
    (joined)
add rax,rcx
mov ecx,[rax*4+404040h]
    (joined)
    mov rsi,r10
    (joined)
    (joined)
    movsxd rdx,ebx
    (joined)
mov rax,rdx
shl rax,2
add rax,rdx
shl rax,6
add rax,rsi
mov eax,[rax*4+408080h]
imul eax,ecx
    add edi,eax
    mov dword ptr [rbp-18h],edi
    add ebx,1
    mov dword ptr [rbp-1Ch],ebx
    cmp ebx,13Fh
jle 000000000000105Fh
