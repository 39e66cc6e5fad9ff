//! Filters of container engines and service managers, in the form that `runc` takes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Args, CAPABILITIES};

/// The filters that the machine has, by name, and whether a command may observe inside. What is missing is added to `missing`.
pub(super) fn all(args: &Args, missing: &mut Vec<String>) -> Vec<(String, Value, bool)> {
    let mut found = Vec::new();
    let engines = [
        ("Docker's default", args.docker.as_deref(), "--docker FILE"),
        (
            "Podman's default",
            Some(args.podman.as_path()),
            "--podman FILE",
        ),
    ];
    for (name, file, option) in engines {
        match file.map(of_engine) {
            Some(Ok(filter)) => found.push((name.to_owned(), filter, true)),
            Some(Err(why)) => missing.push(format!("{name}: {why}; give {option}")),
            None => missing.push(format!("{name}: give {option}")),
        }
    }
    match service_calls() {
        Ok(calls) => {
            for (words, action) in [
                ("fail", "SCMP_ACT_ERRNO"),
                ("end the process", "SCMP_ACT_KILL_PROCESS"),
            ] {
                let filter = json!({
                    "defaultAction": action,
                    "architectures": ["SCMP_ARCH_X86_64"],
                    "syscalls": [{"names": calls, "action": "SCMP_ACT_ALLOW"}],
                });
                // No ptrace.
                found.push((format!("@system-service, others {words}"), filter, false));
            }
        }
        Err(why) => missing.push(format!("@system-service: {why}")),
    }
    found
}

/// A filter in the format of Docker and Podman, whose rules depend on capabilities, architectures and kernels.
fn of_engine(file: &Path) -> Result<Value, String> {
    let text = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let all: Value =
        serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", file.display()))?;
    let has = |condition: &Value, of: &[&str]| {
        let words = condition.as_array().cloned().unwrap_or_default();
        let found = |word: &Value| word.as_str().is_some_and(|word| of.contains(&word));
        (words.is_empty(), words.iter().any(found))
    };
    let applies = |rule: &&Value| {
        let (includes, excludes) = (&rule["includes"], &rule["excludes"]);
        let (no_caps, caps) = has(&includes["caps"], &CAPABILITIES);
        let (no_arches, arches) = has(&includes["arches"], &["amd64"]);
        let excluded =
            has(&excludes["caps"], &CAPABILITIES).1 || has(&excludes["arches"], &["amd64"]).1;
        (no_caps || caps) && (no_arches || arches) && !excluded
    };
    let rules = all["syscalls"].as_array().cloned().unwrap_or_default();
    let rules: Vec<Value> = rules
        .iter()
        .filter(applies)
        .map(|rule| {
            let mut kept = json!({"names": rule["names"], "action": rule["action"]});
            for field in ["args", "errnoRet"] {
                if !rule[field].is_null() {
                    kept[field] = rule[field].clone();
                }
            }
            kept
        })
        .collect();
    if rules.is_empty() {
        return Err(format!("{}: no rules", file.display()));
    }
    let mut filter = json!({
        "defaultAction": all["defaultAction"],
        "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
        "syscalls": rules,
    });
    if !all["defaultErrnoRet"].is_null() {
        filter["defaultErrnoRet"] = all["defaultErrnoRet"].clone();
    }
    Ok(filter)
}

/// The calls of `@system-service`, and of `@default`, which systemd adds, as `systemd-analyze` lists them.
fn service_calls() -> Result<BTreeSet<String>, String> {
    let mut calls = BTreeSet::new();
    let mut sets = vec!["@default".to_owned(), "@system-service".to_owned()];
    while let Some(set) = sets.pop() {
        let output = Command::new("systemd-analyze")
            .args(["--no-pager", "syscall-filter", &set])
            .output();
        let output = output.map_err(|e| format!("systemd-analyze: {e}"))?;
        if !output.status.success() {
            return Err(format!("systemd-analyze does not know {set}"));
        }
        for line in String::from_utf8_lossy(&output.stdout).lines().skip(1) {
            match line.trim() {
                word if word.starts_with('@') => sets.push(word.to_owned()),
                word if word.is_empty() || word.starts_with('#') => {}
                word => drop(calls.insert(word.to_owned())),
            }
        }
    }
    Ok(calls)
}
