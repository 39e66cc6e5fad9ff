//! Exports that end before they are whole: nothing half-written is left, an earlier file is as it was, and the words say why.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use trommel_conformance::calls::{self, Moment};
use trommel_conformance::exec::{Scratch, output, trommel};
use trommel_conformance::not_tested::not_tested;
use trommel_conformance::recorded::Recorded;

use super::refusals::tried;
use super::{Test, text};

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "interrupted: a signal leaves the earlier file or the new one",
        by_signals,
    ),
    (
        "interrupted: so it is where files have names from the start",
        with_names,
    ),
    (
        "interrupted: a command that is killed leaves whole files",
        killed,
    ),
    (
        "interrupted: a directory that goes away is named",
        without_directory,
    ),
    (
        "interrupted: no format leaves part of a file, or hides why",
        all_formats,
    ),
    ("interrupted: a pipe whose reader ends is named", pipe),
    (
        "interrupted: a full file system leaves the earlier file",
        full,
    ),
];

/// More than a pipe holds, so that the writer waits for the reader. A pager that ends is no error.
fn pipe() -> Result<(), String> {
    let recorded = Recorded::new("gcc", &["-O1"])?;
    let fifo = recorded.scratch.path("fifo");
    output(Command::new("mkfifo").arg(&fifo))?;
    let export = |format: &str, out: &Path| {
        let mut export = Command::new(trommel());
        export.args(["export", "-f", format, "-o"]).arg(out);
        export.arg(&recorded.data);
        export
    };
    for format in ["csv", "callgrind"] {
        let read = fifo.clone();
        let reader = std::thread::spawn(move || File::open(read)?.read(&mut [0]));
        let (succeeded, said) = tried(&mut export(format, &fifo))?;
        let read = reader.join().map_err(|_| "the reader panicked")?;
        read.map_err(|e| e.to_string())?;
        if succeeded || !said.contains(&format!("{}: ", fifo.display())) || !said.contains("pipe") {
            return Err(format!("{format}: {succeeded}, {said}"));
        }
        for out in ["-", "/dev/stdout"] {
            let (reader, writer) = std::io::pipe().map_err(|e| e.to_string())?;
            drop(reader);
            let mut export = export(format, Path::new(out));
            let done = export.stdout(writer).output().map_err(|e| e.to_string())?;
            if !done.status.success() || !done.stderr.is_empty() {
                return Err(format!("{format} to {out}: {done:?}"));
            }
        }
    }
    Ok(())
}

const EARLIER: &[u8] = b"the earlier file";

/// A program that is read in no time, as it has no library.
const SMALL: &str = "
__attribute__((noinline)) static int step(int x) { return x & 1 ? 3 * x + 1 : x / 2; }
void _start(void) { for (int x = 27; x != 1;) x = step(x); __asm__ volatile(\"syscall\" ::\"a\"(60), \"D\"(0)); }
";

/// The program with its profile, and a directory for what is written.
fn built() -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    fs::create_dir(scratch.path("out")).map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("small.c"), scratch.path("app"));
    fs::write(&source, SMALL).map_err(|e| e.to_string())?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-nostdlib", "-static", "-Wl,--build-id", "-o"]);
    output(gcc.arg(&program).arg(&source))?;
    Recorded::of(scratch, program, &["-e", "edge,call,context"])
}

/// An export to `out/app.fdata`, where there is an earlier file.
fn export(recorded: &Recorded) -> Result<Command, String> {
    let dir = recorded.scratch.path("out");
    fs::remove_dir_all(&dir).map_err(|e| e.to_string())?;
    fs::create_dir(&dir).map_err(|e| e.to_string())?;
    fs::write(dir.join("app.fdata"), EARLIER).map_err(|e| e.to_string())?;
    let mut export = Command::new(trommel());
    export.args(["export", "-f", "bolt", "-o", "out/app.fdata", "app.data"]);
    export.current_dir(recorded.scratch.dir());
    let said = fs::File::create(recorded.scratch.path("said")).map_err(|e| e.to_string())?;
    export.stderr(said);
    Ok(export)
}

/// Files and what they hold, sorted by name.
fn files(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut all = Vec::new();
    for file in fs::read_dir(dir).map_err(|e| e.to_string())? {
        let file = file.map_err(|e| e.to_string())?;
        let bytes = fs::read(file.path()).map_err(|e| e.to_string())?;
        all.push((file.file_name().to_string_lossy().into_owned(), bytes));
    }
    all.sort();
    Ok(all)
}

/// Requires the earlier file alone, or the whole new one with the earlier one beside it. Returns true for the new one.
fn whole(recorded: &Recorded, new: &[u8]) -> Result<bool, String> {
    let all = files(&recorded.scratch.path("out"))?;
    let named = |name: &str, bytes: &[u8]| (name.to_owned(), bytes.to_vec());
    let before = [named("app.fdata", EARLIER)];
    let after = [named("app.fdata", new), named("app.fdata.old", EARLIER)];
    match &all[..] {
        all if all == before => Ok(false),
        all if all == after => Ok(true),
        _ => {
            let sizes = all.iter().map(|(name, bytes)| (name, bytes.len()));
            Err(format!("{:?} are left", sizes.collect::<Vec<_>>()))
        }
    }
}

/// Returns true for a call that opens a file with one of these flags.
fn opens(moment: &Moment, flags: i32) -> bool {
    moment.call == libc::SYS_openat && moment.arguments[2] as i32 & flags != 0
}

/// The bit of `O_TMPFILE` that is its own.
const NAMELESS: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Runs a command. At a moment after the first one that is wanted, something happens. Returns false if the command spoke before.
fn at(
    command: &mut Command,
    first: impl Fn(&Moment) -> bool,
    nth: usize,
    happens: impl Fn(&Moment),
) -> Result<(bool, ExitStatus), String> {
    let mut passed = 0;
    let mut is_said = false;
    let ended = calls::each(command, |moment| {
        is_said |= moment.call == libc::SYS_write && moment.arguments[0] == 2;
        if passed > 0 && !is_said || first(&moment) {
            passed += 1;
            if passed == nth + 1 {
                happens(&moment);
            }
        }
        Ok(())
    });
    let ended = ended.map_err(|e| format!("{command:?}: {e}"))?;
    Ok((passed > nth, ended))
}

/// At each moment from the opening of the file to the words that it is written.
fn by_signals() -> Result<(), String> {
    interrupted(|moment| opens(moment, NAMELESS))
}

/// A kernel or a file system may have no files without names.
fn with_names() -> Result<(), String> {
    interrupted(|moment| {
        if opens(moment, NAMELESS) {
            let _ = moment.refuse();
        }
        opens(moment, libc::O_EXCL)
    })
}

fn interrupted(first: impl Fn(&Moment) -> bool) -> Result<(), String> {
    let recorded = built()?;
    output(&mut export(&recorded)?)?;
    let new = fs::read(recorded.scratch.path("out/app.fdata")).map_err(|e| e.to_string())?;
    let mut outcomes = [0, 0];
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    for nth in 0.. {
        let signal = signals[nth % signals.len()];
        let of = |e| format!("signal {signal} at moment {nth}: {e}");
        let mut export = export(&recorded)?;
        let (happened, ended) = at(&mut export, &first, nth, |moment| moment.send(signal))?;
        let is_new = whole(&recorded, &new).map_err(of)?;
        if !happened {
            break;
        }
        if ended.signal() != Some(signal) {
            return Err(of(format!("the command ended with {ended}")));
        }
        outcomes[usize::from(is_new)] += 1;
    }
    match outcomes.iter().all(|times| *times > 2) {
        true => Ok(()),
        false => Err(format!("moments before and after: {outcomes:?}")),
    }
}

/// Nothing can be undone by who is killed. A new file is there or is not. Of a new and an earlier one, each is whole, whatever its name.
fn killed() -> Result<(), String> {
    let recorded = built()?;
    output(&mut export(&recorded)?)?;
    let (dir, file) = (
        recorded.scratch.path("out"),
        recorded.scratch.path("out/app.fdata"),
    );
    let new = fs::read(&file).map_err(|e| e.to_string())?;
    for has_earlier in [false, true] {
        let mut is_new = [0, 0];
        for nth in 0.. {
            let mut export = export(&recorded)?;
            if !has_earlier {
                fs::remove_file(&file).map_err(|e| e.to_string())?;
            }
            let nameless = |moment: &Moment| opens(moment, NAMELESS);
            let (happened, _) = at(&mut export, nameless, nth, |m| m.send(libc::SIGKILL))?;
            let all = files(&dir)?;
            let named = |bytes: &[u8]| all.iter().any(|f| f.0 == "app.fdata" && f.1 == bytes);
            let is_whole = |file: &(String, Vec<u8>)| file.1 == new || file.1 == EARLIER;
            let few = match has_earlier {
                true => all.len() <= 2 && (named(&new) || named(EARLIER)),
                false => all.is_empty() || all.len() == 1 && named(&new),
            };
            if !few || !all.iter().all(is_whole) {
                let names: Vec<_> = all
                    .iter()
                    .map(|(name, bytes)| (name, bytes.len()))
                    .collect();
                return Err(format!("killed at moment {nth}: {names:?}"));
            }
            if !happened {
                break;
            }
            is_new[usize::from(named(&new))] += 1;
        }
        if is_new.contains(&0) {
            return Err(format!("moments before and after: {is_new:?}"));
        }
    }
    Ok(())
}

/// While the file is written, the directory is removed.
fn without_directory() -> Result<(), String> {
    let recorded = built()?;
    let dir = recorded.scratch.path("out");
    let writes = |moment: &Moment| moment.call == libc::SYS_linkat;
    let (happened, ended) = at(&mut export(&recorded)?, writes, 0, |_| {
        let _ = fs::remove_dir_all(&dir);
    })?;
    if !happened {
        not_tested("exports interrupted: no files without names here".to_owned());
        return Ok(());
    }
    let said = fs::read_to_string(recorded.scratch.path("said")).map_err(|e| e.to_string())?;
    let wanted = "trommel: out/app.fdata: cannot write there: the directory out is gone; name another file\n";
    match ended.code() == Some(1) && said == wanted && !dir.exists() {
        true => Ok(()),
        false => Err(format!("{ended}: {said}")),
    }
}

/// Outputs of a shell's command that take nothing, or not all, and the words for each.
const OUTPUTS: [(&str, &str); 5] = [
    (
        "-o - >/dev/full",
        "trommel: standard output: cannot write: No space left",
    ),
    ("-o - >&-", "trommel: standard output is closed"),
    (
        "-o /dev/full",
        "trommel: /dev/full: cannot write: No space left",
    ),
    (
        "-o out/file",
        "trommel: out/file: cannot write: File too large (nothing was written)",
    ),
    (
        "-o - >out/shell",
        "trommel: standard output: cannot write: File too large",
    ),
];

fn all_formats() -> Result<(), String> {
    let recorded = built()?;
    let dir = recorded.scratch.dir();
    // Not every kernel lets the paths of this one be sampled.
    let is_exact = |format: &&str| *format != "perf-script";
    let list = output(Command::new(trommel()).args(["export", "--list"]))?;
    let formats = list.lines().filter_map(|line| line.split(' ').next());
    for format in formats.filter(is_exact) {
        for (to, words) in OUTPUTS {
            let limit = if to.contains("out/") {
                "ulimit -f 0; "
            } else {
                ""
            };
            let script = format!("{limit}exec \"$0\" export -f {format} {to} app.data");
            let mut shell = Command::new("bash");
            let shell = shell.args(["-c", &script, &text(trommel())]);
            let (succeeded, said) = tried(shell.current_dir(dir))?;
            let left = files(&recorded.scratch.path("out"))?;
            let is_empty = left
                .iter()
                .all(|(name, bytes)| name == "shell" && bytes.is_empty());
            if succeeded || !said.starts_with(words) || said.lines().count() != 1 || !is_empty {
                return Err(format!("{script}: {said}{left:?}"));
            }
        }
        // A reader that goes away is no failure of the command.
        let script =
            format!("\"$0\" export -f {format} -o - app.data | true; exit ${{PIPESTATUS[0]}}");
        let mut shell = Command::new("bash");
        let said = output(
            shell
                .args(["-c", &script, &text(trommel())])
                .current_dir(dir),
        )?;
        if !said.is_empty() {
            return Err(format!("{script}: {said}"));
        }
    }
    Ok(())
}

fn full() -> Result<(), String> {
    let recorded = built()?;
    let script = r#"
        mount -t tmpfs -o size=64k none out || exit 90
        echo earlier >out/file
        dd if=/dev/zero of=out/filler bs=1k 2>/dev/null
        "$0" export -f callgrind -o out/file app.data 2>said
        echo $? $(cat out/file) $(ls -A out)
    "#;
    let mut shell = Command::new("unshare");
    shell.args(["-m", "sh", "-c", script, &text(trommel())]);
    let shell = shell.current_dir(recorded.scratch.dir());
    let (succeeded, printed) = tried(shell)?;
    if !succeeded {
        not_tested("exports interrupted: no file system can be mounted here".to_owned());
        return Ok(());
    }
    let said = fs::read_to_string(recorded.scratch.path("said")).map_err(|e| e.to_string())?;
    let is_clear = said.contains("out/file: cannot write: No space left")
        && said.contains("the earlier file is untouched")
        && said.lines().count() == 1;
    match is_clear && printed == "1 earlier file filler\n" {
        true => Ok(()),
        false => Err(format!("{printed}{said}")),
    }
}
