//! Folded stacks: a line for each call path, outermost function first, then its cost. Flame graph tools read it.
//!
//! The first word is the program, as converters of `perf script` have it, so that programs are apart.
//! A semicolon separates functions, so one inside of a name becomes a colon.

use std::io::Write;

use trommel_profile::call_tree::Basis;
use trommel_symbol::{Symbols, printable};

use super::{CallPaths, PathFormat};
use crate::error::ExportError;

/// The format.
pub(super) const FORMAT: PathFormat = PathFormat {
    name: "folded",
    about: "call paths, a line each, for inferno and FlameGraph",
    extension: "folded",
    next,
    most: u64::MAX,
    tells_processes: true,
    whole_paths: true,
    write,
};

fn next(file: &str, basis: Basis) -> String {
    format!(
        "inferno-flamegraph --countname {} {file} > flame.svg",
        basis.unit()
    )
}

fn write(
    paths: &CallPaths<'_>,
    symbols: &mut Symbols<'_>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    paths.each(symbols, |owner, own, _| lines(own, owner.program, out))
}

/// Writes the call paths of a process.
fn lines(paths: &CallPaths<'_>, program: &str, out: &mut dyn Write) -> Result<(), ExportError> {
    let program = clean(program);
    let names: Vec<String> = paths.functions.iter().map(|f| clean(&f.name)).collect();
    for (number, weight) in paths.shallow().into_iter().enumerate() {
        if weight.own == 0 {
            continue;
        }
        let mut path: Vec<usize> = paths.path(number).collect();
        path.reverse();
        let words = path.into_iter().map(|n| &*names[paths.nodes[n].function]);
        let words = words.collect::<Vec<_>>().join(";");
        writeln!(out, "{program};{words} {}", weight.own)?;
    }
    Ok(())
}

/// A name as readers find it in a line. A number at its end, a word of its own, would be another cost.
fn clean(name: &str) -> String {
    let name = printable(name).replace(';', ":");
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match name.trim().rsplit_once(char::is_whitespace) {
        Some((rest, word)) if is_number(word) => format!("{rest}_{word}"),
        _ => name.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{profile, written};
    use super::*;

    #[test]
    fn each_path_with_a_cost_is_a_line() {
        let profile = profile(Basis::Stacks, &[(&[1, 2], 5), (&[3], 7), (&[1, 2, 4], 1)]);
        let text = String::from_utf8(written(&FORMAT, &profile).expect("folded"));
        let wanted = "app;[m:1];[m:2] 5\napp;[m:3] 7\napp;[m:1];[m:2];[m:4] 1\n";
        assert_eq!(text.as_deref(), Ok(wanted));
    }
}
