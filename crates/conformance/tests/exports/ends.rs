//! Code that nothing leads to by an event, and code that is never come back to: programs without a C library, and stripped ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output};
use trommel_conformance::recorded::{Recorded, compiled};

use super::Test;
use super::refusals::refused;

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "ends: the kernel's way in counts, and what follows an exit does not",
        without_library,
    ),
    (
        "ends: a shared way into an exit is a system call that comes back",
        shared,
    ),
    (
        "ends: nothing follows the last call of a function",
        last_call,
    ),
    ("ends: labels in code are no functions", labels),
    (
        "ends: a file without sections has its code",
        without_sections,
    ),
    (
        "ends: a stripped static PIE has the instructions of its contexts",
        stripped,
    ),
];

/// A program in assembly, recorded.
fn assembled(source: &str) -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (file, program) = (scratch.path("app.s"), scratch.path("app"));
    fs::write(&file, source).map_err(|e| e.to_string())?;
    let mut build = Command::new("cc");
    build.args(["-nostdlib", "-static", "-Wl,--build-id", "-o"]);
    output(build.arg(&program).arg(&file))?;
    Recorded::of(scratch, program, &["-e", "edge,call"])
}

/// Executions of blocks, by their distances from the lowest one, with their instructions.
fn blocks(recorded: &Recorded) -> Result<BTreeMap<u64, (u64, u64)>, String> {
    let csv = recorded.export("csv", &[])?;
    let csv = fs::read_to_string(csv).map_err(|e| e.to_string())?;
    let mut found = BTreeMap::new();
    for line in csv.lines().filter(|line| line.starts_with("block,")) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, at, .., count, instructions] = fields[..] else {
            return Err(format!("{line}: fields are missing"));
        };
        let at = u64::from_str_radix(at.trim_start_matches("0x"), 16);
        let number = |text: &str| text.parse::<u64>().map_err(|e| e.to_string());
        let counts = (number(count)?, number(instructions)?);
        found.insert(at.map_err(|e| e.to_string())?, counts);
    }
    let first = found.keys().next().copied().unwrap_or_default();
    Ok(found
        .into_iter()
        .map(|(at, counts)| (at - first, counts))
        .collect())
}

fn expect(recorded: &Recorded, wanted: &[(u64, (u64, u64))]) -> Result<(), String> {
    let found = blocks(recorded)?;
    let wanted = BTreeMap::from_iter(wanted.iter().copied());
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{found:?} and not {wanted:?}")),
    }
}

/// The first block ends in a branch, another program's in a system call.
fn without_library() -> Result<(), String> {
    let ends = "call f\n mov $60, %eax\n xor %edi, %edi\n syscall\n nop\n nop\n ud2\n\
        .type f, @function\nf: mov $39, %eax\n syscall\n ret\n.size f, . - f\n";
    let start = ".globl _start\n.type _start, @function\n_start:\n";
    let branch = format!("{start} mov $1000, %ecx\n1: dec %ecx\n jnz 1b\n {ends}");
    expect(
        &assembled(&branch)?,
        &[
            (0, (1, 1)),
            (5, (1000, 2000)),
            (9, (1, 1)),
            (14, (1, 3)),
            (27, (1, 2)),
            (34, (1, 1)),
        ],
    )?;
    let call = format!("{start} mov $39, %eax\n syscall\n test %eax, %eax\n jz 1f\n1: {ends}");
    expect(
        &assembled(&call)?,
        &[
            (0, (1, 2)),
            (7, (1, 2)),
            (11, (1, 1)),
            (16, (1, 3)),
            (29, (1, 2)),
            (36, (1, 1)),
        ],
    )
}

/// A label between the number and the system call, to which others jump.
fn shared() -> Result<(), String> {
    let source = ".globl _start\n.type _start, @function\n_start:\n mov $39, %eax\n call enter\n nop\n nop\n call leave\n hlt\n\
        .type leave, @function\nleave: mov $60, %eax\n xor %edi, %edi\nenter: syscall\n ret\n.size leave, . - leave\n";
    expect(
        &assembled(source)?,
        &[
            (0, (1, 2)),
            (10, (1, 3)),
            (18, (1, 2)),
            (25, (2, 2)),
            // The exit is taken for a call that comes back: its number is known on one of two ways only.
            (27, (2, 2)),
        ],
    )
}

/// A call that ends its function is left by a `ret` to elsewhere. Padding follows it, and another function.
fn last_call() -> Result<(), String> {
    let source = ".globl _start\n.type _start, @function\n_start:\n mov $1, %edi\n call f\n mov $60, %eax\n xor %edi, %edi\n syscall\n\
        .size _start, . - _start\n.type f, @function\nf: dec %edi\n jz 1f\n ret\n1: call away\n.size f, . - f\n nop\n nop\n\
        .type away, @function\naway: pop %rax\n ret\n.size away, . - away\n";
    expect(
        &assembled(source)?,
        &[
            (0, (1, 2)),
            (10, (1, 3)),
            (19, (1, 2)),
            (24, (1, 1)),
            (31, (1, 2)),
        ],
    )
}

/// Symbols without a type, and functions without a size.
fn labels() -> Result<(), String> {
    let body = " mov $9, %ecx\n1: dec %ecx\n jnz 1b\n call f\nf: mov $60, %eax\n syscall\n";
    for names in ["", ".type _start, @function\n.type f, @function\n"] {
        let recorded = assembled(&format!(".globl _start\n{names}_start:\n{body}"))?;
        for format in ["bolt", "profgen"] {
            refused(&recorded, &["-f", format], "write .type NAME, @function")?;
        }
        strip(&recorded.program)?;
        let stripped = Recorded::of(recorded.scratch, recorded.program, &["-e", "edge,call"])?;
        refused(
            &stripped,
            &["-f", "bolt"],
            "use a file that is not stripped",
        )?;
    }
    Ok(())
}

fn strip(program: &Path) -> Result<(), String> {
    output(Command::new("strip").arg(program)).map(drop)
}

/// Nothing names the functions that never return, nor is `main` known.
fn stripped() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = compiled(&scratch, "gcc", &["-O2", "-static-pie"])?;
    strip(&program)?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call,context"])?;
    let by_blocks: u64 = blocks(&recorded)?.values().map(|(_, n)| n).sum();
    let folded = recorded.export("folded", &[])?;
    let folded = fs::read_to_string(folded).map_err(|e| e.to_string())?;
    let costs = folded
        .lines()
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    let by_contexts: u64 = costs.sum();
    match by_blocks == by_contexts {
        true => Ok(()),
        false => Err(format!("{by_blocks} in blocks, {by_contexts} in contexts")),
    }
}

/// The table of sections is what some tools strip last.
fn without_sections() -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let program = compiled(&scratch, "gcc", &["-O2", "-Wl,--build-id"])?;
    let mut bytes = fs::read(&program).map_err(|e| e.to_string())?;
    // Where the table begins, the size and number of its entries, and which has the names.
    bytes[40..48].fill(0);
    bytes[58..64].fill(0);
    fs::write(&program, bytes).map_err(|e| e.to_string())?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    let csv = fs::read_to_string(recorded.export("csv", &[])?).map_err(|e| e.to_string())?;
    let of_program = |line: &&str| line.starts_with("block,") && line.contains("/app,");
    match csv.lines().filter(of_program).count() {
        0 => Err("no block of the program is there".into()),
        _ => Ok(()),
    }
}
