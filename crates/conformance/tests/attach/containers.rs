//! Programs that see other files, processes and networks than we do.

use std::fs;
use std::time::{Duration, Instant};

use trommel_conformance::exec::Scratch;
use trommel_conformance::not_tested::not_tested;

use crate::{Running, build, record, report_of, text, well};

/// Functions of `threads.c`, and not of the other program.
const FUNCTIONS: [&str; 2] = ["compute", "now"];

/// A program in namespaces of its own is attached to from outside. Its file is found though another one has the same path here.
pub(super) fn of_a_container() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    let other = build(&scratch, "counted", "")?;
    let dir = scratch.path("inside");
    fs::create_dir(&dir).map_err(text)?;
    let app = dir.join("app");
    fs::copy(other, &app).map_err(text)?;
    let words = [
        "--mount",
        "--pid",
        "--net",
        "--uts",
        "--ipc",
        "--fork",
        "--kill-child",
    ];
    let script = format!(
        "mount -t tmpfs none {0} && cp {1} {0}/app && exec {0}/app 20 1 0",
        dir.display(),
        program.display()
    );
    let words = words.map(str::to_owned).into_iter();
    let words: Vec<String> = words.chain(["sh".into(), "-c".into(), script]).collect();
    let mut running = Running::start("unshare".as_ref(), &words)?;
    let Some(pid) = child_of(&mut running)? else {
        not_tested("a program of a container: namespaces are refused here");
        return Ok(());
    };
    well(&record(&scratch, &["-p", &pid, "--duration", "0.3"])?)?;
    let report: serde_json::Value = serde_json::from_str(&report_of(&scratch)?).map_err(text)?;
    let modules = report["modules"].as_array().ok_or("no modules")?;
    let path = format!("/proc/{pid}/root{}", app.display());
    if !modules.iter().any(|module| module["path"] == path[..]) {
        return Err(format!("no {path} among {modules:?}"));
    }
    let edges = report["edges"].as_array().ok_or("no edges")?;
    let is_named = |edge: &serde_json::Value| {
        edge["from"]["function"]
            .as_str()
            .is_some_and(|name| FUNCTIONS.contains(&name))
    };
    match edges.iter().any(is_named) {
        true => Ok(()),
        false => Err(format!("no function of its own: {edges:?}")),
    }
}

/// The process that `unshare` has made, once it executes the program.
fn child_of(running: &mut Running) -> Result<Option<String>, String> {
    let limit = Instant::now() + Duration::from_secs(10);
    while running.is_there() && Instant::now() < limit {
        let children = running.file(&format!("task/{}/children", running.pid()))?;
        let child = children.trim().to_owned();
        let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        if name.trim() == "app" {
            return Ok(Some(child));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(None)
}
