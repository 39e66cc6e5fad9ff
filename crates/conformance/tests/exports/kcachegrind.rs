//! The format of callgrind, opened by KCachegrind without a screen.
//!
//! KCachegrind writes a line to standard error for each line of a file that it cannot read, and selects the costliest function when it
//! has read all. It needs a session of D-Bus, and does not end by itself.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use trommel_conformance::recorded::Recorded;

use super::tool;

/// An export is read without a message. Of a copy with a damaged line, this line is named.
pub(super) fn read() -> Result<(), String> {
    let test = "kcachegrind";
    let (Some(viewer), Some(session)) = (
        tool(&["kcachegrind"], test),
        tool(&["dbus-run-session"], test),
    ) else {
        return Ok(());
    };
    let recorded = Recorded::new("gcc", &["-O2", "-g"])?;
    let file = recorded.export("callgrind", &[])?;
    let home = recorded.scratch.dir();
    let said = messages(&viewer, &session, &file, home)?;
    let complaints: Vec<&String> = said.iter().filter(|line| complains(line)).collect();
    if !complaints.is_empty() {
        return Err(format!("{complaints:?}"));
    }
    let good = fs::read_to_string(&file).map_err(|e| e.to_string())?;
    let is_cost = |line: &&str| line.starts_with("0x");
    let number = good.lines().position(|line| is_cost(&line));
    let number = number.ok_or("no line of costs")?;
    let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
    lines[number] = format!("zz{}", lines[number]);
    let damaged = home.join("damaged.callgrind");
    fs::write(&damaged, lines.join("\n")).map_err(|e| e.to_string())?;
    let of_damaged = messages(&viewer, &session, &damaged, home)?;
    println!("kcachegrind: {said:?}; of a damaged file: {of_damaged:?}");
    let line = format!(": {} :", number + 1);
    let named = |text: &String| complains(text) && text.contains(&line);
    match of_damaged.iter().any(named) {
        true => Ok(()),
        false => Err(format!("line {} is not named: {of_damaged:?}", number + 1)),
    }
}

fn complains(line: &str) -> bool {
    line.starts_with("Loading ")
}

/// Messages about a file, up to the selection of a function.
fn messages(
    viewer: &Path,
    session: &Path,
    file: &Path,
    home: &Path,
) -> Result<Vec<String>, String> {
    // The viewer ends when standard input does, so it never outlives this test. The session ends with the shell.
    const UNTIL_TOLD: &str = "\"$1\" \"$2\" </dev/null & viewer=$!; read -r _; kill $viewer; wait";
    let mut child = Command::new(session)
        .args(["--", "sh", "-c", UNTIL_TOLD, "sh"])
        .args([viewer, file])
        .env("QT_QPA_PLATFORM", "offscreen")
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| e.to_string())?;
    let errors = child.stderr.take().ok_or("no standard error")?;
    let (send, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        let all = BufReader::new(errors).lines().map_while(Result::ok);
        all.for_each(|line| drop(send.send(line)));
    });
    let mut said = Vec::new();
    let mut selected = false;
    while let Ok(line) = lines.recv_timeout(Duration::from_secs(30)) {
        selected = line.starts_with("Selected ");
        if selected || complains(&line) {
            said.push(line);
        }
        if selected {
            break;
        }
    }
    drop(child.stdin.take());
    child.wait().map_err(|e| e.to_string())?;
    reader.join().map_err(|_| "the reader has ended")?;
    match selected {
        true => Ok(said),
        false => Err(format!("no function is selected: {said:?}")),
    }
}
