//! The modules that are written.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Result, bail};
use trommel_code::Program;
use trommel_export::{Format, Input, Modules};
use trommel_profile::{Module, Profile};
use trommel_tuple::ModuleId;

use crate::args::ExportArgs;
use crate::load;
use crate::output;

/// Modules whose code cannot be had, and why.
pub(super) type WithoutCode = Vec<(ModuleId, String)>;

/// The modules that are written.
pub(super) fn modules(
    args: &ExportArgs,
    format: &dyn Format,
    (profile, exact): (&Profile, bool),
    program: &Program,
) -> Result<Vec<ModuleId>> {
    let executed = |module: &&Module| program.modules.contains_key(&module.id);
    let is_file = |module: &&Module| executed(module) && module.id != ModuleId::ANON;
    if !profile.modules.iter().any(|module| is_file(&module)) {
        let why = match exact {
            true => {
                "no branch and no call was executed in any file, and all else follows from these"
            }
            false => {
                "no executed code of any file is known; where samples or windows were too few to see any, record for longer, \
                 or with a greater --budget or --rate"
            }
        };
        bail!("{}: {why}", args.file.display());
    }
    if !args.module.is_empty() || !args.build_id.is_empty() {
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
        return Ok(found.iter().map(|m| m.id).collect());
    }
    let own = Input::program_of(profile).filter(executed).map(|m| m.id);
    if format.modules() == Modules::All {
        let all = profile.modules.iter().filter(is_file).map(|m| m.id);
        // The program first: some readers take the first file for it.
        let others = all.filter(|id| Some(*id) != own);
        return Ok(own.into_iter().chain(others).collect());
    }
    if let Some(own) = own {
        return Ok(vec![own]);
    }
    // Run by another name: through a link, or a #! line. Then it is the file that executed most.
    let linked = linked(profile).filter(|id| program.modules.contains_key(id));
    Ok(linked
        .or_else(|| hottest(&executed_by(program)))
        .into_iter()
        .collect())
}

/// The module that the command is a link to.
fn linked(profile: &Profile) -> Option<ModuleId> {
    let command = Path::new(std::ffi::OsStr::from_bytes(profile.command.first()?));
    let file = command.canonicalize().ok()?;
    let is = |m: &&Module| m.path == file.as_os_str().as_bytes();
    profile.modules.iter().find(is).map(|m| m.id)
}

/// The source file with the function that executed most instructions of the only module, as a shell takes it. Headers are no such files, nor
/// is what is not there.
pub(super) fn source(input: &mut Input<'_, '_>) -> Option<String> {
    const ENDS: [&str; 5] = ["c", "cc", "cpp", "cxx", "C"];
    /// Functions that are asked.
    const MOST: usize = 100;
    let [only] = input.modules[..] else {
        return None;
    };
    let functions = input.program.functions.iter();
    let functions = functions.filter(|f| f.module == only);
    let mut starts = functions.filter_map(|f| f.start()).take(MOST);
    starts.find_map(|start| {
        let (file, _) = input.symbols.line(start)?;
        let path = Path::new(&*file);
        let is_source = path
            .extension()
            .is_some_and(|end| ENDS.iter().any(|e| end == *e));
        (is_source && path.is_file()).then(|| output::command_line(&[file.as_bytes().to_vec()]))
    })
}

/// Instructions that each module executed.
fn executed_by(program: &Program) -> BTreeMap<ModuleId, f64> {
    let mut executed: BTreeMap<ModuleId, f64> = BTreeMap::new();
    for function in &program.functions {
        *executed.entry(function.module).or_default() += function.executed.times;
    }
    executed
}

/// The file that executed most of them.
fn hottest(executed: &BTreeMap<ModuleId, f64>) -> Option<ModuleId> {
    let files = executed.iter().filter(|(id, _)| **id != ModuleId::ANON);
    let most = files.max_by(|(_, a), (_, b)| a.total_cmp(b));
    most.map(|(id, _)| *id)
}

/// Says which file executed most of the instructions, where that is another one than the program.
pub(super) fn hotter(args: &ExportArgs, input: &Input<'_, '_>) -> String {
    let [own] = input.modules[..] else {
        return String::new();
    };
    let executed = executed_by(input.program);
    let all: f64 = executed.values().sum();
    let share = |id: &ModuleId| 100.0 * executed.get(id).unwrap_or(&0.0) / all.max(1.0);
    let Some(module) = hottest(&executed)
        .and_then(|id| input.module(id))
        .filter(|m| m.id != own)
    else {
        return String::new();
    };
    if !args.module.is_empty() || !args.build_id.is_empty() {
        return String::new();
    }
    format!(
        ", which executed {:.0} % of the instructions (--module {}: {:.0} %)",
        share(&own),
        names(std::iter::once(module)),
        share(&module.id)
    )
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
