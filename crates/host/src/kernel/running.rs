//! Facts that `/proc` reports about a running process, and why it cannot be attached.
//!
//! All facts are read before the process is touched, so that a refusal
//! leaves it as it was.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Pid;
use trommel_symbol::elf::{self, Format, Image};

/// The name of processes that attach and detach for a command.
pub const KEEPER_NAME: &std::ffi::CStr = c"attach-keeper";

/// A running process.
#[derive(Clone, Debug)]
pub struct Running {
    /// Its id.
    pub pid: i32,
    /// The file that it executes.
    pub program: PathBuf,
    /// The image of that file.
    pub image: Image,
    /// Its argument vector.
    pub arguments: Vec<OsString>,
}

/// The reason why a process cannot be attached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// There is none.
    #[error("there is no such process")]
    None,
    /// A thread's id.
    #[error("that is a thread of process {0}: give -p {0}")]
    Thread(i32),
    /// It has ended.
    #[error("it has ended and waits for its parent (a zombie)")]
    Zombie,
    /// It is part of the kernel.
    #[error("it is a thread of the kernel")]
    Kernel,
    /// It is this process.
    #[error("that is this very process")]
    Itself,
    /// It waits for this process.
    #[error("this command was started by it, and it waits for it")]
    Ancestor,
    /// It has a tracer.
    #[error("process {0}{1} traces it already (a debugger or strace); end that first")]
    Traced(i32, String),
    /// It has restricted its system calls.
    #[error(
        "it has restricted its own system calls (seccomp), and only root, outside of any container, may read what it allows"
    )]
    Seccomp,
    /// It has a shadow stack.
    #[error("it uses a shadow stack; start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off")]
    ShadowStack,
    /// It is no 64-bit program.
    #[error("it is not a 64-bit x86 program")]
    NotNative,
    /// It is another user's.
    #[error(
        "it may not be looked at: it belongs to another user, or runs with more rights than you have; be that user, or root"
    )]
    Denied,
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::trim)
}

fn number(status: &str, name: &str) -> i32 {
    field(status, name)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

/// A file of `/proc`, in few calls: their sizes are not known, and what asks for it first is kept waiting by each call.
///
/// # Errors
/// What the system says.
pub fn proc_file(path: &str) -> io::Result<Vec<u8>> {
    const ROOM: usize = 16 * 1024;
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    let mut filled = 0;
    loop {
        if bytes.len() - filled < ROOM / 2 {
            bytes.resize(filled + ROOM.max(filled), 0);
        }
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Reads a file like [`proc_file`], if it can be read.
pub fn proc_text(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&proc_file(path).ok()?).into_owned())
}

fn status_of(pid: i32) -> Option<String> {
    proc_text(&format!("/proc/{pid}/status"))
}

fn is_ancestor(pid: i32) -> bool {
    let mut at = std::process::id() as i32;
    while at > 1 {
        at = status_of(at).map_or(0, |s| number(&s, "PPid"));
        if at == pid {
            return true;
        }
    }
    false
}

/// Returns true for a process that a signal has stopped (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU).
pub fn is_stopped(pid: Pid) -> bool {
    let status = status_of(pid.as_raw()).unwrap_or_default();
    field(&status, "State").is_some_and(|state| state.starts_with('T'))
}

/// The process that traces a thread, if there is one.
pub fn tracer_of(tid: Pid) -> Option<u32> {
    let tracer = number(&status_of(tid.as_raw())?, "TracerPid");
    u32::try_from(tracer).ok().filter(|&pid| pid != 0)
}

/// The status of a process, or of another thread where the first one has ended before the others.
fn not_ended(pid: i32, status: String) -> Result<String, Refusal> {
    let ended = field(&status, "State").is_some_and(|s| s.starts_with(['Z', 'X']));
    match ended {
        true => another_thread(pid).ok_or(Refusal::Zombie),
        false => Ok(status),
    }
}

fn check_tracer(status: &str) -> Result<(), Refusal> {
    let tracer = number(status, "TracerPid");
    if tracer == 0 {
        return Ok(());
    }
    let name = status_of(tracer).and_then(|s| field(&s, "Name").map(str::to_owned));
    // A keeper is about to be done, and waited for.
    if name.as_deref() == KEEPER_NAME.to_str().ok() {
        return Ok(());
    }
    let name = name.map(|name| format!(" ({name})"));
    Err(Refusal::Traced(tracer, name.unwrap_or_default()))
}

/// Looks at a process that could be attached before.
///
/// # Errors
/// It is gone, or another process traces it.
pub fn untraced(pid: i32) -> Result<(), Refusal> {
    let status = status_of(pid).ok_or(Refusal::None)?;
    check_tracer(&not_ended(pid, status)?)
}

/// Looks at a process.
///
/// # Errors
/// Why it cannot be attached.
pub fn look(pid: i32) -> Result<Running, Refusal> {
    let status = status_of(pid).ok_or(Refusal::None)?;
    let group = number(&status, "Tgid");
    if group != pid {
        return Err(Refusal::Thread(group));
    }
    if pid == std::process::id() as i32 {
        return Err(Refusal::Itself);
    }
    let status = not_ended(pid, status)?;
    if field(&status, "VmSize").is_none() {
        return Err(Refusal::Kernel);
    }
    if is_ancestor(pid) {
        return Err(Refusal::Ancestor);
    }
    check_tracer(&status)?;
    if restricts_itself(Pid::from_raw(pid)) && !may_read_filters() {
        return Err(Refusal::Seccomp);
    }
    if field(&status, "x86_Thread_features").is_some_and(|f| f.split(' ').any(|f| f == "shstk")) {
        return Err(Refusal::ShadowStack);
    }
    let denied = |e: io::Error| match e.kind() {
        io::ErrorKind::PermissionDenied => Refusal::Denied,
        _ => Refusal::None,
    };
    let exe = format!("/proc/{pid}/exe");
    let program = fs::read_link(&exe).map_err(denied)?;
    let Ok(Format::Elf(image)) = elf::inspect(Path::new(&exe)) else {
        return Err(Refusal::NotNative);
    };
    let words = command_of(pid).into_iter().map(OsString::from_vec);
    Ok(Running {
        pid,
        program,
        image,
        arguments: words.collect(),
    })
}

/// The arguments of a process. Of one that has none (any more), the kernel's name for it.
///
/// A program that is just being executed has none yet for some microseconds, in which its parent may go on already. It is waited for.
pub(crate) fn command_of(pid: i32) -> Vec<Vec<u8>> {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let mut bytes = read("cmdline");
    for _ in 0..100 {
        // A process that has ended, or none, has no memory.
        if !bytes.is_empty() || status_of(pid).is_none_or(|s| field(&s, "VmSize").is_none()) {
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
        bytes = read("cmdline");
    }
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let words = words_of(&bytes, program.as_deref());
    if words.is_empty() {
        let name = read("comm").trim_ascii_end().to_vec();
        return Vec::from_iter((!name.is_empty()).then_some(name));
    }
    words
}

/// The arguments in the text of `/proc/PID/cmdline`.
///
/// A server may have written a title over them (`redis-server *:6379`, `nginx: worker process`): one text, and nothing after it. Its words are
/// taken then, unless the text is the path of the program.
pub(crate) fn words_of(text: &[u8], program: Option<&Path>) -> Vec<Vec<u8>> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    let words: Vec<&[u8]> = text.split(|&c| c == 0).collect();
    let (first, others) = words.split_first().unwrap_or((&text, &[]));
    let name = Path::new(OsStr::from_bytes(first)).file_name();
    let is_program = name.is_some() && name == program.and_then(Path::file_name);
    if is_program || !first.contains(&b' ') || others.iter().any(|word| !word.is_empty()) {
        return words.into_iter().map(<[u8]>::to_vec).collect();
    }
    let title = first.split(|&c| c == b' ').filter(|word| !word.is_empty());
    title.map(<[u8]>::to_vec).collect()
}

/// Returns whether a process like this one may trace its descendants only (Yama's first scope), and has no privilege to trace others.
pub fn only_descendants() -> bool {
    const SYS_PTRACE: u32 = 19;
    let scope = proc_text("/proc/sys/kernel/yama/ptrace_scope");
    let is_free = |text: String| text.trim() == "0";
    if scope.is_none_or(is_free) {
        return false;
    }
    let status = proc_text("/proc/self/status").unwrap_or_default();
    let effective = field(&status, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok());
    effective.unwrap_or(0) >> SYS_PTRACE & 1 == 0
}

/// Returns whether system calls may be refused to a process that are not refused to us: it has seccomp filters, and not only those that all
/// have in the container that both are in.
pub fn restricts_itself(pid: Pid) -> bool {
    let restrictions = |who: &str| {
        let status = proc_text(&format!("/proc/{who}/status")).unwrap_or_default();
        ["Seccomp", "Seccomp_filters"].map(|name| number(&status, name))
    };
    let container = |who: &str| {
        let of = |name| fs::read_link(format!("/proc/{who}/ns/{name}")).ok();
        [of("mnt"), of("pid"), of("user")]
    };
    let who = pid.to_string();
    let its = restrictions(&who);
    its[0] != 0 && (its != restrictions("self") || container(&who) != container("self"))
}

/// Returns how many filters of system calls (seccomp) a process has.
pub fn filters_of(pid: Pid) -> u32 {
    let status = status_of(pid.as_raw()).unwrap_or_default();
    number(&status, "Seccomp_filters").max(1) as u32
}

/// Returns whether threads of a process may serve faults of others: it has a descriptor for that, or more descriptors than can be looked at in short time.
pub fn serves_faults(pid: Pid) -> bool {
    const NAME: &[u8] = b"anon_inode:[userfaultfd]";
    const MOST: usize = 128;
    let files = fs::read_dir(format!("/proc/{pid}/fd"));
    let files: Vec<_> = files.into_iter().flatten().flatten().collect();
    let is_one = |name: PathBuf| name.as_os_str().as_bytes() == NAME;
    files.len() > MOST || (files.iter()).any(|file| fs::read_link(file.path()).is_ok_and(is_one))
}

/// Returns whether the kernel lets us read filters of others: we have CAP_SYS_ADMIN, and none ourselves.
fn may_read_filters() -> bool {
    const SYS_ADMIN: u32 = 21;
    let status = proc_text("/proc/self/status").unwrap_or_default();
    let effective = field(&status, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok());
    effective.unwrap_or(0) >> SYS_ADMIN & 1 != 0 && number(&status, "Seccomp") == 0
}

/// The status of a thread that has not ended.
fn another_thread(pid: i32) -> Option<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let statuses = tasks.filter_map(|t| fs::read_to_string(t.ok()?.path().join("status")).ok());
    let mut live = statuses.filter(|s| field(s, "VmSize").is_some());
    live.next()
}

/// User and system time that a process has used so far, in the kernel's units.
pub(crate) fn modes_of(pid: Pid) -> Option<[u64; 2]> {
    modes_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn modes_in(stat: &str) -> Option<[u64; 2]> {
    let mut words = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut number = || words.next()?.parse::<u64>().ok();
    Some([number()?, number()?])
}

/// CPU time that a process has used so far.
pub fn cpu_time(pid: Pid) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let [user, system] = modes_in(&stat)?;
    let ticks = user + system;
    // The kernel's unit there, on every x86.
    const TICK: Duration = Duration::from_millis(10);
    Some(TICK * u32::try_from(ticks).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn user_and_system_time_are_told_apart() {
        let stat = "12 (a) b) R 1 2 3 4 5 6 7 8 9 10 77 88 0 0";
        assert_eq!(modes_in(stat), Some([77, 88]));
        assert_eq!(modes_in("12 (a) R 1"), None);
    }

    #[test]
    fn a_title_over_the_arguments_is_words_and_no_program_with_a_blank() {
        let of = |text: &[u8], program: &str| -> Vec<String> {
            let words = words_of(text, Some(Path::new(program)));
            let text = |word| String::from_utf8(word).expect("text");
            words.into_iter().map(text).collect()
        };
        let redis = b"redis-server *:6379\0\0\0\0\0";
        assert_eq!(
            of(redis, "/usr/bin/redis-check-rdb"),
            ["redis-server", "*:6379"]
        );
        let nginx = b"nginx: worker process";
        assert_eq!(
            of(nginx, "/usr/sbin/nginx"),
            ["nginx:", "worker", "process"]
        );
        assert_eq!(of(b"./my app\0", "/srv/my app"), ["./my app"]);
        assert_eq!(of(b"app\0a b\0\0", "/bin/app"), ["app", "a b", ""]);
        assert_eq!(of(b"a b\0c\0", "/bin/app"), ["a b", "c"]);
        assert_eq!(of(b"", "/bin/app"), [""; 0]);
    }

    #[test]
    fn a_process_that_has_just_begun_has_its_arguments() {
        for _ in 0..100 {
            let mut child = Command::new("sleep").arg("100").spawn().expect("a child");
            let found = command_of(child.id() as i32);
            child.kill().expect("it is there");
            child.wait().expect("its end");
            assert_eq!(found, [&b"sleep"[..], b"100"]);
        }
    }

    #[test]
    fn a_process_that_has_ended_has_a_name() {
        let mut child = Command::new("true").spawn().expect("a child");
        let pid = child.id() as i32;
        while status_of(pid).is_some_and(|s| field(&s, "VmSize").is_some()) {
            std::thread::yield_now();
        }
        assert_eq!(command_of(pid), [b"true"]);
        child.wait().expect("its end");
        assert!(command_of(pid).is_empty());
    }

    #[test]
    fn what_cannot_be_taken_is_told_apart() {
        let own = std::process::id() as i32;
        let refusal = |pid| look(pid).err();
        assert_eq!(refusal(own), Some(Refusal::Itself));
        assert_eq!(
            refusal(nix::unistd::getppid().as_raw()),
            Some(Refusal::Ancestor)
        );
        assert_eq!(refusal(i32::MAX), Some(Refusal::None));
        // Only the first pid namespace shows kernel threads.
        let second = status_of(2).filter(|s| field(s, "VmSize").is_none());
        if second.is_some() {
            assert_eq!(refusal(2), Some(Refusal::Kernel));
        }
        let mut child = Command::new("sleep")
            .arg("100")
            .stdout(Stdio::null())
            .spawn()
            .expect("sleep runs");
        let pid = child.id() as i32;
        std::thread::sleep(Duration::from_millis(50));
        let found = look(pid).expect("an ordinary process");
        assert_eq!(found.arguments, ["sleep", "100"]);
        assert!(found.program.file_name().is_some() && cpu_time(Pid::from_raw(pid)).is_some());
        child.kill().expect("killed");
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(refusal(pid), Some(Refusal::Zombie));
        child.wait().expect("waited for");
        assert_eq!(refusal(pid), Some(Refusal::None));
    }
}
