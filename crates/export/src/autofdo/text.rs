//! LLVM's sample profile as text.

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_tuple::ModuleId;

use super::{Compiler, Functions, Samples, samples};
use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;

/// The format.
pub(crate) struct Text;

impl Format for Text {
    fn name(&self) -> &'static str {
        "autofdo"
    }

    fn about(&self) -> &'static str {
        "a sample profile as text, for clang -fprofile-sample-use"
    }

    fn modules(&self) -> Modules {
        Modules::One
    }

    fn is_for_optimisers(&self) -> bool {
        true
    }

    fn needs_lines(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "prof"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        format!(
            "llvm-profdata show --sample {file}  # then {}",
            next.compiler(file)
        )
    }

    fn check(&self, input: &Input<'_, '_>, module: ModuleId) -> Result<(), ExportError> {
        input.check_compiler(module, self.name())?;
        input.check_lines(module, self.name())
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let functions = samples(input, self.name(), Compiler::Llvm)?;
        write(&functions, out)?;
        Ok(())
    }
}

/// A name in which nothing ends a line, or begins a comment or the body of a function: the format has no escape.
fn on_a_line(name: &[u8]) -> Vec<u8> {
    let on = |(n, byte): (usize, &u8)| match byte {
        b'#' | b' ' if n == 0 => b'?',
        byte if byte.is_ascii_control() => b'?',
        byte => *byte,
    };
    name.iter().enumerate().map(on).collect()
}

/// Functions with most samples come first.
pub(super) fn ordered(functions: &Functions) -> Vec<(&[u8], &Samples)> {
    let mut all: Vec<(&[u8], &Samples)> = functions.iter().map(|(n, s)| (&n[..], s)).collect();
    all.sort_by_key(|(name, samples)| (Reverse(samples.total), *name));
    all
}

fn write(functions: &Functions, out: &mut dyn Write) -> io::Result<()> {
    for (name, samples) in ordered(functions) {
        out.write_all(&on_a_line(name))?;
        writeln!(out, ":{}:{}", samples.total, samples.head)?;
        body(samples, 1, out)?;
    }
    Ok(())
}

fn body(samples: &Samples, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    for (at, position) in &samples.body {
        write!(out, "{:indent$}{}: {}", "", place(*at), position.count)?;
        for (target, count) in &position.targets {
            out.write_all(b" ")?;
            out.write_all(&on_a_line(target))?;
            write!(out, ":{count}")?;
        }
        writeln!(out)?;
    }
    for ((at, name), inlined) in &samples.inlined {
        write!(out, "{:indent$}{}: ", "", place(*at))?;
        out.write_all(&on_a_line(name))?;
        writeln!(out, ":{}", inlined.total)?;
        body(inlined, indent + 1, out)?;
    }
    Ok(())
}

fn place((lines, discriminator): (u32, u32)) -> String {
    match discriminator {
        0 => lines.to_string(),
        _ => format!("{lines}.{discriminator}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `#` begins a comment, and a space a line of the function before.
    #[test]
    fn names_begin_no_comment_and_end_no_line() {
        let functions = ["#a b", " c", "d\ne", "operator new"];
        let names = functions.map(|name| on_a_line(name.as_bytes()));
        assert_eq!(names, [&b"?a b"[..], b"?c", b"d?e", b"operator new"]);
    }
}
