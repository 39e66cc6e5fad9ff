//! Programs that cannot run, and surroundings in which none can.

use std::fs;
use std::path::Path;
use trommel_conformance::not_tested::not_tested;

use crate::Test;
use crate::harness::{Place, program};

pub(crate) const TESTS: &[Test] = &[
    ("program: missing, directory, not executable", not_there),
    ("program: 32-bit, foreign, no program at all", foreign),
    ("program: a text that names no interpreter", texts),
    ("program: cut short at many lengths", cut_short),
    ("program: header fields damaged", damaged_header),
    ("program: interpreter missing or circular", interpreters),
    ("program: too little address space", address_space),
    ("program: limits on files and processes", other_limits),
    ("program: a sandbox that refuses system calls", sandbox),
    ("program: no /proc", no_proc),
];

fn image() -> Result<Vec<u8>, String> {
    fs::read("/bin/true").map_err(|e| format!("/bin/true: {e}"))
}

fn patched(at: usize, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut copy = image()?;
    copy[at..at + bytes.len()].copy_from_slice(bytes);
    Ok(copy)
}

fn not_there(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    place.write("plain", &image()?, 0o644)?;
    let record =
        |program, code, words: &[&str]| place.refused(&["record", "--", program], code, words);
    record("no-such-program", 127, &["no-such-program", "not found"])?;
    record("./missing", 127, &["./missing", "no such file"])?;
    record("./plain/x", 127, &["./plain/x", "no such file"])?;
    record("", 127, &["not found"])?;
    record("/", 126, &["/", "directory"])?;
    record(".", 126, &[".", "directory"]).or_else(|_| record(".", 127, &["not found"]))?;
    record("./plain", 126, &["./plain", "not executable"])?;
    record("/dev/null", 126, &["/dev/null"])?;
    nothing_left(&place, &["plain"])
}

/// A 32-bit program by hand: a header, one segment, and `mov eax, 1; xor ebx, ebx; int 0x80`.
fn i386() -> Vec<u8> {
    let mut elf = vec![0x7f, b'E', b'L', b'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let half = |elf: &mut Vec<u8>, n: u16| elf.extend(n.to_le_bytes());
    let word = |elf: &mut Vec<u8>, n: u32| elf.extend(n.to_le_bytes());
    half(&mut elf, 2);
    half(&mut elf, 3);
    for n in [1, 0x0804_8054, 52, 0, 0] {
        word(&mut elf, n);
    }
    for n in [52, 32, 1, 0, 0, 0] {
        half(&mut elf, n);
    }
    for n in [1, 0, 0x0804_8000, 0x0804_8000, 0x60, 0x60, 5, 0x1000] {
        word(&mut elf, n);
    }
    elf.extend([0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80, 0, 0, 0]);
    elf
}

fn foreign(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    place.write("i386", &i386(), 0o755)?;
    place.refused(&["record", "--", "./i386"], 126, &["./i386", "32-bit"])?;
    for (machine, name) in [
        (183_u16, "AArch64"),
        (243, "RISC-V"),
        (21, "PowerPC"),
        (999, "another machine"),
    ] {
        place.write("foreign", &patched(18, &machine.to_le_bytes())?, 0o755)?;
        place.refused(&["record", "--", "./foreign"], 126, &["./foreign", name])?;
    }
    place.write("foreign", &patched(5, &[2])?, 0o755)?;
    place.refused(&["record", "--", "./foreign"], 126, &["./foreign"])?;
    place.write("foreign", b"hell\0\n", 0o755)?;
    place.refused(
        &["record", "--", "./foreign"],
        126,
        &["neither an ELF program nor"],
    )?;
    nothing_left(&place, &["foreign", "i386"])
}

/// A text is run as `env` runs it, by a shell, in each way of running.
fn texts(bin: &Path) -> Result<(), String> {
    const WAYS: [&[&str]; 6] = [
        &["record", "--quiet", "--"],
        &["record", "--quiet", "--budget", "5", "--"],
        &["record", "--quiet", "--budget", "5", "--windows", "--"],
        &["record", "--quiet", "-e", "stack", "--"],
        &["run", "--after", "0", "--"],
        &["stat", "--"],
    ];
    let place = Place::new(bin)?;
    place.write("empty", b"", 0o755)?;
    place.write("bare", b"#!\n", 0o755)?;
    place.write("text", b"echo $0 $1; exit 3\n", 0o755)?;
    for way in WAYS {
        for (words, code, out) in [
            (["./empty", "a"], 0, ""),
            (["./bare", "a"], 0, ""),
            (["./text", "a"], 3, "./text a\n"),
        ] {
            let ended = place.trommel(&[way, &words].concat())?;
            let said = String::from_utf8_lossy(&ended.stdout);
            if ended.status.code() != Some(code) || said != out {
                return Err(format!("{way:?} {words:?}: {ended:?}"));
            }
        }
    }
    Ok(())
}

/// However much is left of a program: an error that names it, or, where only what the kernel does
/// not look at is gone, what it does natively.
fn cut_short(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let whole = image()?;
    let mut lengths: Vec<usize> = (1..=20).map(|n| whole.len() * n / 21).collect();
    lengths.extend([
        1, 3, 4, 5, 16, 19, 20, 63, 64, 65, 120, 200, 1000, 4095, 4096, 4097,
    ]);
    for length in lengths {
        place.write("cut", &whole[..length], 0o755)?;
        as_natively_or_refused(&place, &format!("{length} bytes"))?;
    }
    nothing_left(&place, &["cut", "trommel.data", "trommel.data.old"])
}

fn damaged_header(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    // Entry, program header offset, section offset, sizes and counts, types; the first segments.
    let fields = [
        4, 6, 16, 20, 24, 32, 40, 52, 54, 56, 58, 60, 64, 72, 80, 96, 104, 112, 120, 128,
    ];
    for at in fields {
        for bytes in [&[0xff; 8][..], &[0; 8], &[0xff], &[0x7f, 0xff, 0xff, 0xff]] {
            place.write("cut", &patched(at, bytes)?, 0o755)?;
            as_natively_or_refused(&place, &format!("{bytes:x?} at {at}"))?;
        }
    }
    Ok(())
}

fn as_natively_or_refused(place: &Place, what: &str) -> Result<(), String> {
    let ended = place.trommel(&["record", "--quiet", "--", "./cut"])?;
    if ended.status.code() == Some(126) {
        return ended
            .refused(126, &["./cut"])
            .map_err(|e| format!("{what}: {e}"));
    }
    let native = place.run(&mut place.shell("exec ./cut")?)?;
    match native.status == ended.status {
        true => Ok(()),
        false => Err(format!(
            "{what}: native {}, here {}: {}",
            native.status, ended.status, ended.stderr
        )),
    }
}

fn interpreters(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    place.write("lost", b"#!/no/such/interpreter\n", 0o755)?;
    place.refused(
        &["record", "--", "./lost"],
        126,
        &["./lost", "/no/such/interpreter"],
    )?;
    let circle = format!("#!{}\n", place.path("circle").display());
    place.write("circle", circle.as_bytes(), 0o755)?;
    place.refused(&["record", "--", "./circle"], 126, &["./circle", "scripts"])?;
    place.write("dir", b"#!/usr\n", 0o755)?;
    place.refused(
        &["record", "--", "./dir"],
        126,
        &["./dir", "/usr", "directory"],
    )
}

/// Whatever the limit: the program runs as without us, or one error says what is in the way.
fn address_space(bin: &Path) -> Result<(), String> {
    for mebibytes in [40, 300, 1000, 1250, 1300, 1400, 1600, 2600, 4000] {
        let place = Place::new(bin)?;
        let script =
            format!("ulimit -v $(({mebibytes} * 1024)); exec \"$T\" record --quiet -- /bin/true");
        let ended = place.run(&mut place.shell(&script)?)?;
        if ended.status.success() {
            place.report("trommel.data")?;
            continue;
        }
        let known = |code| {
            ended.refused(code, &["trommel doctor"])?;
            nothing_left(&place, &[])
        };
        known(126)
            .or_else(|_| known(1))
            .map_err(|e| format!("{mebibytes} MiB: {e} {}", ended.status))?;
    }
    Ok(())
}

fn other_limits(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    // Too small for the shared memory, and for a profile.
    let ended =
        place.run(&mut place.shell("ulimit -f 100; exec \"$T\" record --quiet -- /bin/true")?)?;
    ended.refused(1, &["trommel doctor"])?;
    nothing_left(&place, &[])?;
    for files in [4, 5, 6, 8, 20] {
        // What was inherited would be of the number.
        let script = format!(
            "for f in /proc/self/fd/*; do f=${{f##*/}}; [ $f -le 2 ] || eval \"exec $f>&-\"; done
             ulimit -n {files}; exec \"$T\" record --quiet -- /bin/echo hello"
        );
        let ended = place.run(&mut place.shell(&script)?)?;
        if ended.status.success() && ended.stdout == b"hello\n" {
            place.report("trommel.data")?;
            continue;
        }
        ended
            .one_error()
            .map_err(|e| format!("{files} descriptors: {e}"))?;
    }
    Ok(())
}

/// Runs a command without one system call: `deny NUMBER COMMAND`.
const DENY: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv) {
  struct sock_filter f[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(argv[1]), 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog p = { 4, f };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p)) return 90;
  execv(argv[2], argv + 2);
  return 91;
}
"#;

/// Each refusal is one error that sends to doctor, and doctor says the same.
fn sandbox(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let deny = program("deny", DENY)?;
    let deny = deny.display();
    let calls = [
        (101, "ptrace", "ptrace"),
        (310, "process_vm_readv", "process memory"),
        (311, "process_vm_writev", "process memory"),
        (319, "memfd_create", "memfd"),
        (77, "ftruncate", "memfd"),
        (57, "fork", "a recording"),
        (56, "clone", "a recording"),
    ];
    for (number, name, row) in calls {
        let script = format!("exec {deny} {number} \"$T\" record --quiet -- /bin/echo hello");
        let ended = place.run(&mut place.shell(&script)?)?;
        let at = |e: String| format!("without {name}: {e}");
        if ended.status.code() == Some(90) {
            not_tested("refused system calls: there are no filters for them here");
            return Ok(());
        }
        let works = ended.status.success() && ended.stdout == b"hello\n";
        // The C library forks by one of the two.
        if works && row == "a recording" {
            continue;
        }
        let refused = |code| ended.refused(code, &["trommel doctor"]);
        refused(126).or_else(|_| refused(1)).map_err(at)?;
        let script = format!("exec {deny} {number} \"$T\" doctor");
        doctor_fails(&place, &script, row).map_err(at)?;
    }
    Ok(())
}

fn no_proc(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let without =
        |what| format!("unshare -m bash -c 'mount -t tmpfs none /proc || exit 90; {what}'");
    let record = without("exec \"$T\" record --quiet -- /bin/echo hello");
    let ended = place.run(&mut place.shell(&record)?)?;
    if ended.status.code() != Some(126) && !ended.stderr.contains("trommel") {
        not_tested("a machine without /proc: nothing can be mounted here");
        return Ok(());
    }
    ended.refused(126, &["/proc", "trommel doctor"])?;
    doctor_fails(&place, &without("exec \"$T\" doctor"), "/proc")
}

/// Requires that the doctor that `script` runs says `fail` in a row.
fn doctor_fails(place: &Place, script: &str, row: &str) -> Result<(), String> {
    let ended = place.run(&mut place.shell(script)?)?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let fails = |line: &str| {
        let rest = line.strip_prefix("fail");
        rest.is_some_and(|rest| rest.trim_start().starts_with(row))
    };
    match ended.status.code() == Some(1) && text.lines().any(fails) {
        true => Ok(()),
        false => Err(format!(
            "doctor, {}: no failing row `{row}` in\n{text}",
            ended.status
        )),
    }
}

fn nothing_left(place: &Place, known: &[&str]) -> Result<(), String> {
    match place.names()?.iter().find(|n| !known.contains(&n.as_str())) {
        Some(name) => Err(format!("{name} was left behind")),
        None => Ok(()),
    }
}
