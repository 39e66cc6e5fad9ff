//! Each file of `tests/optimise`: by how much `rbp` is above `rsp`, instructions, and what becomes of them. With
//! `TROMMEL_BLESS=1` what becomes of them is written there.

extern crate std;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{assert, assert_eq};

use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};

use super::{Loop, Renewal, Span, Way, plan};

const END: &str = "----\n";

fn assembled(text: &str, name: &str) -> Vec<Instruction> {
    let dir = std::env::temp_dir().join(format!("trommel-optimise-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory");
    let at = |file: &str| dir.join(file).to_string_lossy().into_owned();
    fs::write(at("a.s"), format!(".intel_syntax noprefix\n{text}")).expect("written");
    for (tool, args) in [
        ("as", [at("a.s"), "-o".into(), at("a.o"), "--64".into()]),
        (
            "objcopy",
            ["-O".into(), "binary".into(), at("a.o"), at("a.bin")],
        ),
    ] {
        let status = Command::new(tool).args(args).status().expect("binutils");
        assert!(status.success(), "{name}: {tool}");
    }
    let bytes = fs::read(at("a.bin")).expect("assembled");
    let _ = fs::remove_dir_all(&dir);
    Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE)
        .into_iter()
        .collect()
}

fn disassembled(bytes: &[u8]) -> Vec<String> {
    let mut formatter = IntelFormatter::new();
    formatter
        .options_mut()
        .set_memory_size_options(iced_x86::MemorySizeOptions::Always);
    Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE)
        .into_iter()
        .map(|i| {
            let mut line = String::new();
            formatter.format(&i, &mut line);
            line
        })
        .collect()
}

fn shown(insns: &[Instruction], plan: Option<&Loop>) -> String {
    let mut out = String::new();
    let Some(plan) = plan else {
        return "no second round\n".into();
    };
    if let Some(frame) = plan.frame {
        let _ = writeln!(out, "rbp = rsp + {frame}");
    }
    for promoted in &plan.promoted {
        let _ = writeln!(
            out,
            "r{} is {} bytes at {}",
            promoted.register.0, promoted.size, promoted.offset
        );
    }
    for kept in &plan.kept {
        let (r, at, from) = (kept.register.0, kept.at, kept.result.0);
        let _ = writeln!(out, "r{r} is r{from} after instruction {at}");
    }
    let mut formatter = IntelFormatter::new();
    let code = |span: Span| disassembled(plan.bytes(span));
    for (i, action) in insns.iter().zip(&plan.actions) {
        if action.joined {
            out.push_str("    (joined)\n");
        }
        match action.renewal {
            Some(Renewal::Load(load)) => {
                let _ = writeln!(out, "    renew: {}", code(load).join("; "));
            }
            Some(Renewal::Compare(compare, load)) => {
                let (compare, load) = (code(compare).join("; "), code(load).join("; "));
                let _ = writeln!(out, "    renew: {compare}; jne: {load}");
            }
            None => {}
        }
        if !action.replaced {
            let mut line = String::new();
            formatter.format(i, &mut line);
            let _ = writeln!(out, "{line}");
        }
        for line in code(action.code) {
            let _ = writeln!(out, "    {line}");
        }
    }
    out
}

/// The ways: a line `# way N` starts one that leaves an earlier one by its instruction number N.
fn ways(code: &str, count: usize) -> Vec<Way> {
    let mut ways = alloc::vec![Way {
        range: 0..count,
        from: None
    }];
    let mut n = 0;
    for line in code.lines() {
        if let Some(from) = line.strip_prefix("# way ") {
            ways.last_mut().expect("one").range.end = n;
            let from = Some(from.trim().parse().expect("a number"));
            ways.push(Way {
                range: n..count,
                from,
            });
        } else if !line.starts_with('#') && !line.trim().is_empty() {
            n += 1;
        }
    }
    ways
}

fn check(file: &Path) {
    let text = fs::read_to_string(file).expect("a file");
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let (input, wanted) = text.split_once(END).unwrap_or((&text, ""));
    let (first, code) = input.split_once('\n').expect("lines");
    let frame = first.strip_prefix("# frame ").expect("a frame");
    let insns = assembled(code, &name);
    let ways = ways(code, insns.len());
    let found = shown(
        &insns,
        plan(&insns, &ways, frame.trim().parse().expect("a number")).as_ref(),
    );
    if std::env::var_os("TROMMEL_BLESS").is_some() {
        fs::write(file, format!("{input}{END}{found}")).expect("written");
        return;
    }
    assert_eq!(found, wanted, "{name}");
}

#[test]
fn each_file_comes_out_as_it_says() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/optimise");
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(files.len() > 5);
    files.iter().for_each(|file| check(file));
}
