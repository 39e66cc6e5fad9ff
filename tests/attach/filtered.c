// Becomes the program of its arguments, with a filter of system calls that allows all: what a container gives to all that
// is in it. With -N first, call N is refused. With +N, it ends the process.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int ends = argc > 1 && argv[1][0] == '+';
    int number = argc > 1 && (ends || argv[1][0] == '-') ? atoi(argv[1] + 1) : -1;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, ends ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { 4, filter };
    argv += number >= 0;
    if (!argv[1] || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 126;
    execvp(argv[1], argv + 1);
    return 127;
}
