# frame 48
# Two ways: the second leaves the first by its branch, changes a slot that the first only reads, and one in doubt.
    mov eax, dword ptr [rbp-4]
    and eax, 1
    jne 0x1020
    add dword ptr [rbp-8], 1
    sub dword ptr [rbp-12], 1
    jne 0x1000
# way 2
    mov rax, qword ptr [rbp-32]
    mov byte ptr [rax], 1
    add dword ptr [rbp-4], 5
    add dword ptr [rbp-8], 2
    sub dword ptr [rbp-12], 1
    jne 0x1000
----
rbp = rsp + 48
r3 is 4 bytes at 44
r6 is 4 bytes at 40
r7 is 4 bytes at 36
    mov eax,ebx
and eax,1
jne 000000000000100Ch
    add esi,1
    mov dword ptr [rbp-8],esi
    sub edi,1
    mov dword ptr [rbp-0Ch],edi
jne 000000000000101Ah
mov rax,[rbp-20h]
mov byte ptr [rax],1
add dword ptr [rbp-4],5
    mov ebx,dword ptr [rbp-4]
    renew: cmp esi,dword ptr [rbp-8]; jne: mov esi,dword ptr [rbp-8]
    add esi,2
    mov dword ptr [rbp-8],esi
    renew: cmp edi,dword ptr [rbp-0Ch]; jne: mov edi,dword ptr [rbp-0Ch]
    sub edi,1
    mov dword ptr [rbp-0Ch],edi
jne 0000000000001033h
