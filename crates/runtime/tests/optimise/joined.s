# frame 48
# A load in doubt in front of an instruction on registers that overwrites flags: no signal in between.
    mov rax, qword ptr [rbp-16]
    mov dword ptr [rax], 0
    mov eax, dword ptr [rbp-4]
    add eax, 1
    mov dword ptr [rbp-4], eax
    cmp dword ptr [rbp-4], 10
    jne 0x1000
----
rbp = rsp + 48
r3 is 4 bytes at 44
mov rax,[rbp-10h]
mov dword ptr [rax],0
    renew: cmp ebx,dword ptr [rbp-4]; jne: mov ebx,dword ptr [rbp-4]
    mov eax,ebx
    (joined)
add eax,1
mov [rbp-4],eax
    mov ebx,eax
    cmp ebx,0Ah
jne 000000000000101Dh
