//! Names with bytes that a terminal obeys, or that end a line: of functions, of a file, of the program and of its arguments.

use std::fs;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, trommel};
use trommel_conformance::recorded::Recorded;
use trommel_symbol::is_obeyed;

use super::optimisers::accepted;
use super::{Test, llvm, said};

pub(super) const ALL: &[(&str, Test)] = &[(
    "obeyed: what people read has nothing that a terminal obeys, and BOLT knows functions by their bytes",
    obeyed,
)];

/// The names are as long as those that take their places.
const SOURCE: &str = "
static volatile int sink;
#define ALONE __attribute__((noinline))
ALONE void FIRST_OF_TWO_FUNCTIONS(int n) { sink += n; }
ALONE static void OTHERS_OF_TWO_FUNCTIONS(int n) { for (int i = 0; i < n; i++) FIRST_OF_TWO_FUNCTIONS(i); }
int main(void) { for (int i = 0; i < 100; i++) OTHERS_OF_TWO_FUNCTIONS(i & 7); return 0; }
";
const NAMES: [(&[u8], &[u8]); 3] = [
    (
        b"FIRST_OF_TWO_FUNCTIONS",
        b"first\x1b[31m\r\x07 \xff\xe2\x80\xae\xc2\x9b---",
    ),
    (b"OTHERS_OF_TWO_FUNCTIONS", b"other\nend_of_record\nfn="),
    (b"NAME_OF_THE_FILE.c", b"f\n\x1b]0;x\x07\xff--lines.c"),
];

/// Records the program with the other names.
fn recorded() -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let source = scratch.path("NAME_OF_THE_FILE.c");
    fs::write(source, SOURCE).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    build.args(["-O1", "-g", "-no-pie", "-Wl,--emit-relocs", "-o", "app"]);
    output(build.arg("NAME_OF_THE_FILE.c").current_dir(scratch.dir()))?;
    let program = scratch.path("app");
    let mut bytes = fs::read(&program).map_err(|e| e.to_string())?;
    for (name, other) in NAMES {
        let places = bytes.windows(name.len()).enumerate();
        let places: Vec<usize> = places.filter(|(_, at)| *at == name).map(|p| p.0).collect();
        for at in places {
            bytes[at..at + name.len()].copy_from_slice(other);
        }
    }
    fs::write(&program, bytes).map_err(|e| e.to_string())?;
    let renamed = scratch.path("a\x1b[7m\npp\r");
    fs::rename(&program, &renamed).map_err(|e| e.to_string())?;
    Recorded::of(scratch, renamed, &["-e", "edge,call"])
}

/// Checks that nothing in a text is obeyed, and that no name has become a line.
fn clean(of: &str, all: &str) -> Result<(), String> {
    let is_wrong = |line: &&str| line.contains(is_obeyed) || *line == "fn=";
    let number = |is: &dyn Fn(&&str) -> bool| all.lines().filter(is).count();
    // `lcov` ends what it says of a file so.
    let ends = number(&|line| *line == "end_of_record");
    if let Some(line) = all.lines().find(is_wrong) {
        return Err(format!("{of}: {line:?} in\n{all:?}"));
    }
    match ends == number(&|line| line.starts_with("SF:")) {
        true => Ok(()),
        false => Err(format!("{of}: {ends} ends in\n{all:?}")),
    }
}

fn obeyed() -> Result<(), String> {
    let recorded = recorded()?;
    for format in ["callgrind", "cachegrind", "lcov", "csv"] {
        let (file, printed) = recorded.exported(format, &[])?;
        let all = fs::read_to_string(file).map_err(|e| format!("{format}: {e}"))?;
        clean(format, &all)?;
        clean(format, &printed)?;
        if !all.contains(r"first\u{1b}[31m\r\u{7} ") {
            return Err(format!("{format}: its names are others:\n{all}"));
        }
    }
    for words in [&["report", "--json"][..], &["report"], &["annotate"]] {
        let mut command = Command::new(trommel());
        command.args(words).arg(&recorded.data);
        if words[0] == "annotate" {
            command.arg("main");
        }
        clean(words[0], &said(&mut command)?)?;
    }
    bolt(&recorded)
}

fn bolt(recorded: &Recorded) -> Result<(), String> {
    let (profile, printed) = recorded.exported("bolt", &[])?;
    let bytes = fs::read(&profile).map_err(|e| e.to_string())?;
    let field = b" first\x1b[31m\r\x07\\ \xff\xe2\x80\xae\xc2\x9b---";
    if !bytes.windows(field.len()).any(|there| there == field) {
        return Err(String::from_utf8_lossy(&bytes).into_owned());
    }
    if !printed.contains("1 executed functions have an end of a line") {
        return Err(printed);
    }
    match llvm("llvm-bolt", "obeyed") {
        Some(bolt) => accepted(recorded, &bolt, &profile).map(drop),
        None => Ok(()),
    }
}
