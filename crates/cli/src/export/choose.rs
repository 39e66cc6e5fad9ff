//! The modules that are written.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, bail};
use trommel_export::{Format, Input, Language, Modules};
use trommel_profile::{Module, Profile};
use trommel_symbol::printable;
use trommel_tuple::ModuleId;

use super::mains::Mains;
use crate::args::ExportArgs;
use crate::load;
use crate::output;
use crate::report::processes::Row;

/// Modules whose code cannot be had, and why.
pub(super) type WithoutCode = Vec<(ModuleId, String)>;

/// The modules that are written, and words about others.
pub(super) struct Chosen {
    pub(super) modules: Vec<ModuleId>,
    /// Percent of the instructions that the only one executed.
    share: f64,
    /// Options that choose other files, with their shares; none where files were named.
    others: Vec<String>,
}

impl Chosen {
    fn all(modules: Vec<ModuleId>) -> Self {
        Self {
            modules,
            share: 100.0,
            others: Vec::new(),
        }
    }

    /// The share of instructions, where it is not nearly all, and other files, where there are some.
    pub(super) fn among(&self) -> String {
        const MOST: f64 = 99.5;
        let share = format!(", which executed {:.0} % of the instructions", self.share);
        match self.others.is_empty() {
            true if self.share >= MOST => String::new(),
            true => share,
            false => format!("{share} ({})", self.others.join(", ")),
        }
    }

    /// The same of a file that is refused.
    pub(super) fn instead(&self) -> String {
        match self.others.is_empty() {
            true => String::new(),
            false => format!("; or choose another file ({})", self.others.join(", ")),
        }
    }
}

/// Chooses the modules that are written. `rows`: the processes of the profile, made `apart` or together.
pub(super) fn modules(
    args: &ExportArgs,
    format: &dyn Format,
    (rows, apart): (&[Row], bool),
    input: &Input<'_, '_>,
) -> Result<Chosen> {
    let (profile, program) = (input.profile, input.program);
    let executed = |module: &&Module| program.modules.contains_key(&module.id);
    let is_file = |module: &&Module| executed(module) && module.id != ModuleId::ANON;
    if !args.module.is_empty() || !args.build_id.is_empty() {
        return named(args, format, profile, executed).map(Chosen::all);
    }
    let mains = Mains::of(profile, rows, apart);
    if format.modules() == Modules::All {
        let own = mains.first.filter(|id| program.modules.contains_key(id));
        let all = profile.modules.iter().filter(is_file).map(|m| m.id);
        // The program first: some readers take the first file for it.
        let others = all.filter(|id| Some(*id) != own);
        return Ok(Chosen::all(own.into_iter().chain(others).collect()));
    }
    let ranked = ranked(input);
    let pool = match profile.scope.only.is_empty() {
        true => mains.ranked(&ranked),
        // What was observed alone is meant.
        false => Vec::new(),
    };
    let pool = match pool.is_empty() {
        true => ranked.iter().map(|(id, _)| *id).collect(),
        false => pool,
    };
    let has_what_is_needed = |id: &&ModuleId| format.check(input, **id).is_ok();
    let chosen = pool.iter().find(has_what_is_needed).or(pool.first());
    Ok(match chosen {
        Some(chosen) => among(format, *chosen, &ranked, input),
        None => Chosen::all(Vec::new()),
    })
}

/// Refuses a profile in which no file executed anything.
pub(super) fn check_files(args: &ExportArgs, input: &Input<'_, '_>, exact: bool) -> Result<()> {
    let files = input.program.modules.keys();
    if files.into_iter().any(|id| *id != ModuleId::ANON) {
        return Ok(());
    }
    let why = match exact {
        true => "no branch and no call was executed in any file, and all else follows from these",
        false => {
            "no executed code of any file is known; where samples or windows were too few to see any, record for longer, \
             or with a greater --budget or --rate"
        }
    };
    bail!("{}: {why}", args.file.display())
}

/// The modules that the arguments name.
fn named(
    args: &ExportArgs,
    format: &dyn Format,
    profile: &Profile,
    executed: impl Fn(&&Module) -> bool,
) -> Result<Vec<ModuleId>> {
    let wanted = |m: &&Module| load::is_wanted(m, &args.module, &args.build_id);
    let found: Vec<&Module> = profile.modules.iter().filter(wanted).collect();
    let is_known = |names: &[String], ids: &[String]| {
        profile
            .modules
            .iter()
            .any(|m| load::is_wanted(m, names, ids))
    };
    let one = std::slice::from_ref::<String>;
    let names_missing = args.module.iter().filter(|name| !is_known(one(name), &[]));
    let ids_missing = args.build_id.iter().filter(|id| !is_known(&[], one(id)));
    let missing = names_missing.chain(ids_missing);
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    if !missing.is_empty() {
        bail!(
            "{}: no module is called {}; there are {}",
            args.file.display(),
            missing.join(" or "),
            names(profile.modules.iter().filter(executed))
        );
    }
    if found.is_empty() {
        bail!(
            "{}: no module is called {} and has build id {}",
            args.file.display(),
            args.module.join(" or "),
            args.build_id.join(" or ")
        );
    }
    if format.modules() == Modules::One && found.len() > 1 {
        let builds = found.iter().map(|m| {
            let path = String::from_utf8_lossy(&m.path);
            format!("{path} ({})", m.build_name())
        });
        bail!(
            "{}: {} describes one file, and {} modules are chosen; name one by its whole path, or by --build-id: {}",
            args.file.display(),
            format.name(),
            found.len(),
            builds.collect::<Vec<_>>().join(", ")
        );
    }
    Ok(found.iter().map(|m| m.id).collect())
}

/// The source file with the function that executed most instructions of the only module, as a shell takes it, and the language of that
/// function. Headers are no such files, nor is what is not there.
pub(super) fn source(input: &mut Input<'_, '_>) -> (Option<String>, Language) {
    const ENDS: [&str; 5] = ["c", "cc", "cpp", "cxx", "C"];
    let files = hottest_files(input);
    let end = |file: &Rc<str>| Path::new(&**file).extension().map(OsStr::to_owned);
    let language = match files.first().and_then(end) {
        Some(end) if end == "rs" => Language::Rust,
        _ => Language::Other,
    };
    let is_source = |file: &&Rc<str>| end(file).is_some_and(|end| ENDS.iter().any(|e| end == *e));
    let mut sources = files.iter().filter(is_source);
    let source = sources.find(|file| Path::new(&***file).is_file());
    let source = source.map(|file| output::command_line(&[file.as_bytes().to_vec()]));
    (source, language)
}

/// The files with the functions of the only module that executed most instructions.
fn hottest_files(input: &mut Input<'_, '_>) -> Vec<Rc<str>> {
    /// Functions that are asked.
    const MOST: usize = 100;
    let [only] = input.modules[..] else {
        return Vec::new();
    };
    let functions = input.program.functions.iter();
    let functions = functions.filter(|f| f.module == only);
    let starts = functions.filter_map(|f| f.start()).take(MOST);
    let files = starts.filter_map(|start| Some(input.symbols.line(start)?.0));
    files.collect()
}

/// Returns true if source files of the only module are not there, as those of a compiler's library.
pub(super) fn lacks_sources(input: &mut Input<'_, '_>) -> bool {
    let [only] = input.modules[..] else {
        return false;
    };
    let Ok(code) = input.symbols.code(only) else {
        return false;
    };
    let mut known: BTreeSet<Rc<str>> = BTreeSet::new();
    code.parts().iter().any(|(start, bytes)| {
        let range = *start..start.saturating_add(bytes.len() as u64);
        let rows = input.symbols.rows(only, &range);
        let mut files = rows.into_iter().map(|row| row.file);
        files.any(|file| known.insert(Rc::clone(&file)) && !Path::new(&*printable(&file)).is_file())
    })
}

/// Files with the instructions that each executed, most first.
fn ranked(input: &Input<'_, '_>) -> Vec<(ModuleId, f64)> {
    let mut executed: BTreeMap<ModuleId, f64> = BTreeMap::new();
    for function in &input.program.functions {
        *executed.entry(function.module).or_default() += function.executed.times;
    }
    let is_file = |id: &ModuleId| input.module(*id).is_some_and(|m| m.path.starts_with(b"/"));
    let files = executed.into_iter().filter(|(id, _)| is_file(id));
    let mut files: Vec<(ModuleId, f64)> = files.collect();
    files.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    files
}

/// A chosen file, and others that the format could have.
fn among(
    format: &dyn Format,
    chosen: ModuleId,
    ranked: &[(ModuleId, f64)],
    input: &Input<'_, '_>,
) -> Chosen {
    /// Other files that are named.
    const MOST: usize = 3;
    const LEAST: f64 = 1.0;
    let all = input.program.executed().times.max(1.0);
    let of = |id: ModuleId| ranked.iter().find(|(other, _)| *other == id);
    let share = of(chosen).map_or(0.0, |(_, times)| 100.0 * times / all);
    let others = ranked.iter().filter(|(id, _)| *id != chosen);
    let others = others.map(|(id, times)| (*id, 100.0 * times / all));
    let others = others.take_while(|(_, share)| *share >= LEAST);
    let can_be = |id: ModuleId| {
        let is_there = !is_loader(input.module(id)) && input.symbols.code(id).is_ok();
        is_there && format.check(input, id).is_ok()
    };
    let others = others.filter(|(id, _)| can_be(*id)).take(MOST);
    let others = others.filter_map(|(id, share)| {
        let name = option(input.profile, input.module(id)?);
        Some(format!("--module {name}: {share:.0} %"))
    });
    Chosen {
        modules: vec![chosen],
        share,
        others: others.collect(),
    }
}

/// Returns true of the system's loader, which nobody rebuilds.
fn is_loader(module: Option<&Module>) -> bool {
    let path = module.map_or(&b""[..], |module| &module.path);
    let name = path.rsplit(|c| *c == b'/').next().unwrap_or(path);
    name.starts_with(b"ld-linux")
}

/// Returns true if a file's name is that of a shared library: `libx.so.1`, `module.so`.
pub(super) fn is_library(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.")
}

/// The name by which `--module` chooses a module alone, as a shell takes it.
fn option(profile: &Profile, module: &Module) -> String {
    let base = |m: &Module| m.path.rsplit(|c| *c == b'/').next().map(<[u8]>::to_vec);
    let own = base(module);
    let alike = profile.modules.iter().filter(|m| base(m) == own).count();
    let name = own.filter(|_| alike == 1);
    output::command_line(&[name.unwrap_or_else(|| module.path.clone())])
}

fn names<'m>(modules: impl Iterator<Item = &'m Module>) -> String {
    let base = |m: &Module| {
        String::from_utf8_lossy(&m.path)
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    modules.map(base).collect::<Vec<_>>().join(", ")
}
