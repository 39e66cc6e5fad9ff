//! Code generated at run time that has no names, and how its program names it.

use std::collections::BTreeMap;

use trommel_code::Program;
use trommel_profile::Profile;
use trommel_profile::samples::Samples;
use trommel_tuple::{ModuleId, Place, Vaddr};

use super::samples;
use super::view::View;

/// The name of such code in tables.
pub(super) const JIT: &str = "(JIT-compiled code)";
/// Least part of all that is worth a word, in percent.
const LEAST: f64 = 5.0;
/// Modules that are named.
const MODULES: usize = 3;

/// Says so of functions that follow from branches and calls.
pub(super) fn of_program(profile: &Profile, program: &Program) -> Option<String> {
    let nameless = program.functions.iter();
    let nameless = nameless.filter(|f| f.module == ModuleId::ANON && f.name.is_empty());
    let own: f64 = nameless.map(|f| f.executed.times).sum();
    said(profile, 100.0 * own / program.executed().times.max(1.0))
}

/// Says which modules have no symbols for much of what was executed there.
pub(super) fn stripped(view: &View<'_>, program: &Program) -> Option<String> {
    let nameless = program.functions.iter();
    let nameless = nameless.filter(|f| f.module != ModuleId::ANON && f.name.is_empty() && !f.stub);
    let mut modules: BTreeMap<ModuleId, f64> = BTreeMap::new();
    for function in nameless {
        *modules.entry(function.module).or_default() += function.executed.times;
    }
    let whole = program.executed().times.max(1.0);
    let share = 100.0 * modules.values().sum::<f64>() / whole;
    let mut modules: Vec<(ModuleId, f64)> = modules.into_iter().collect();
    modules.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names: Vec<String> = (modules.iter().take(MODULES))
        .map(|(module, _)| view.module(Place::new(*module, Vaddr(0))))
        .collect();
    (share >= LEAST).then(|| {
        format!(
            "{share:.0} % is in functions without symbols, mostly of {}; packages of debug symbols (-dbgsym) have names",
            names.join(", ")
        )
    })
}

/// Says so of samples.
pub(super) fn of_samples(view: &mut View<'_>, found: &Samples) -> Option<String> {
    let whole = found.total().executions;
    let own = samples::nameless(view, found);
    said(view.profile, 100.0 * own / whole.max(1.0))
}

fn said(profile: &Profile, share: f64) -> Option<String> {
    (share >= LEAST).then(|| {
        let remedy = remedy(&profile.command);
        format!("{share:.0} % is JIT-compiled code without names; {remedy}")
    })
}

/// The options by which the program of a command names its code.
fn remedy(command: &[Vec<u8>]) -> String {
    let name = command.first().map_or(&b""[..], Vec::as_slice);
    let name = name.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    let options: &[&str] = match &*name {
        "node" | "nodejs" => &["--perf-basic-prof"],
        "java" => &["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit"],
        name if name.starts_with("python3") => &["-X perf"],
        _ => &[],
    };
    let given = |option: &&str| command.iter().any(|word| word == option.as_bytes());
    match options.is_empty() || options.iter().all(given) {
        true => "see trommel help stacks".to_owned(),
        false => format!("try {name} {}", options.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_one_that_was_not_tried() {
        let of = |line: &str| {
            let words: Vec<Vec<u8>> = line.split(' ').map(|w| w.as_bytes().to_vec()).collect();
            remedy(&words)
        };
        assert_eq!(of("/usr/bin/node app.js"), "try node --perf-basic-prof");
        let java = "-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit";
        assert_eq!(of("java -cp . App"), format!("try java {java}"));
        let help = "see trommel help stacks";
        assert_eq!(of("node --perf-basic-prof app.js"), help);
        assert_eq!(of(&format!("java {java} App")), help);
        assert_eq!(of("./jit"), help);
        assert_eq!(remedy(&[]), help);
    }

    #[test]
    fn little_is_not_said() {
        let profile = Profile::default();
        assert_eq!(said(&profile, 4.9), None);
        let text = said(&profile, 32.9).expect("a sentence");
        assert!(text.starts_with("33 % is JIT-compiled code"), "{text}");
    }
}
