# frame 48
# A slot that a store through a pointer may change is no invariant, and its copy is none behind the home's renewal.
    mov rax, qword ptr [rbp-16]
    mov edx, dword ptr [rbp-20]
    mov dword ptr [rax], 9
    mov eax, dword ptr [rbp-20]
    add eax, edx
    imul eax, eax, 40
    add eax, 7
    add dword ptr [rbp-24], eax
    add dword ptr [rbp-24], edx
    sub dword ptr [rbp-4], 1
    jne 0x1000
----
rbp = rsp + 48
r3 is 4 bytes at 24
r6 is 4 bytes at 44
mov rax,[rbp-10h]
mov edx,[rbp-14h]
mov dword ptr [rax],9
mov eax,[rbp-14h]
add eax,edx
imul eax,28h
add eax,7
    renew: cmp ebx,dword ptr [rbp-18h]; jne: mov ebx,dword ptr [rbp-18h]
    add ebx,eax
    mov dword ptr [rbp-18h],ebx
    add ebx,edx
    mov dword ptr [rbp-18h],ebx
    renew: cmp esi,dword ptr [rbp-4]; jne: mov esi,dword ptr [rbp-4]
    sub esi,1
    mov dword ptr [rbp-4],esi
jne 0000000000001028h
