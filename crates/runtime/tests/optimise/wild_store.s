# frame 48
# A store through a pointer puts slots in doubt; where flags are overwritten they are compared.
    mov rax, qword ptr [rbp-16]
    mov byte ptr [rax], 0
    add dword ptr [rbp-4], 1
    add qword ptr [rbp-16], 1
    mov eax, dword ptr [rbp-4]
    cmp eax, dword ptr [rbp-20]
    jl 0x1000
----
rbp = rsp + 48
r3 is 8 bytes at 32
r6 is 4 bytes at 44
    mov rax,rbx
mov byte ptr [rax],0
    renew: cmp esi,dword ptr [rbp-4]; jne: mov esi,dword ptr [rbp-4]
    add esi,1
    mov dword ptr [rbp-4],esi
    renew: cmp rbx,qword ptr [rbp-10h]; jne: mov rbx,qword ptr [rbp-10h]
    add rbx,1
    mov qword ptr [rbp-10h],rbx
    mov eax,esi
    cmp esi,dword ptr [rbp-14h]
jl 000000000000101Ch
