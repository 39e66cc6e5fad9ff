//! Trommel in containers: with the filters of engines and of service managers, inside and from outside.
//!
//! Containers are made by `runc` or `crun`, which take a filter as data, and by `bwrap` and `unshare`, which have namespaces alone.
//! The program is a loop of `bash`, so that nothing has to be built or fetched. A filter that is not on the machine is not tried, and neither is
//! a tool: the table says what is missing.

mod filters;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use trommel_conformance::exec::{Scratch, trommel};

/// Records inside of containers and from outside, with the filters that container engines and service managers set.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask check containers --docker default.json\n\nRoot is needed, and for filters runc or crun. Debian: apt-get install runc crun bubblewrap"
)]
pub(crate) struct Args {
    /// Docker's default filter: `profiles/seccomp/default.json` of github.com/moby/profiles.
    #[arg(long, value_name = "FILE")]
    docker: Option<PathBuf>,
    /// Podman's default filter, in the same format.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/usr/share/containers/seccomp.json"
    )]
    podman: PathBuf,
}

/// Capabilities that Docker gives.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_RAW",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// Containers started so far: each has a name of its own.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Makes a container.
struct Engine<'a> {
    tool: &'a str,
    /// The filter, in the form that `runc` takes.
    filter: Option<&'a Value>,
    scratch: &'a Scratch,
}

impl Engine<'_> {
    /// Returns a command that runs a script of the shell in a container. The scratch directory is the same there.
    fn command(&self, script: &str) -> Result<Command, String> {
        let mut command = Command::new(self.tool);
        let dir = self.scratch.dir();
        match self.tool {
            "bwrap" => command
                .args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"])
                .args(["--unshare-all", "--die-with-parent", "--bind"])
                .args([dir, dir])
                .args(["--", "bash", "-c", script]),
            "unshare" => command
                .args(["--user", "--map-root-user", "--pid", "--fork"])
                .args(["--mount-proc", "bash", "-c", script]),
            _ => {
                let bundle = self.scratch.path("bundle");
                let root = bundle.join("root");
                fs::create_dir_all(&root).map_err(|e| e.to_string())?;
                let config = self.config(script).to_string();
                fs::write(bundle.join("config.json"), config).map_err(|e| e.to_string())?;
                let number = STARTED.fetch_add(1, Relaxed);
                let state = self.scratch.path("state");
                command.arg("--root").arg(state);
                command
                    .args(["run", "--bundle"])
                    .arg(&bundle)
                    .arg(format!("trommel-{}-{number}", std::process::id()))
            }
        };
        command.current_dir(dir).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs a container that does nothing.
    fn tried(&self) -> Result<(), String> {
        let output = self.command("exit 0")?.output();
        let output = output.map_err(|e| e.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    fn config(&self, script: &str) -> Value {
        let bind = |path: &str, how: &str| json!({"destination": path, "source": path, "type": "bind", "options": ["rbind", how]});
        let own = self.scratch.dir().to_string_lossy().into_owned();
        let command = trommel();
        let beside = command.parent().unwrap_or(Path::new("/"));
        let there = ["/usr", "/bin", "/lib", "/lib64", "/etc", "/sbin"];
        let there = there.into_iter().filter(|path| Path::new(path).exists());
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}),
        ];
        mounts.extend(there.map(|path| bind(path, "ro")));
        mounts.push(bind(&beside.to_string_lossy(), "ro"));
        mounts.push(bind(&own, "rw"));
        let namespaces =
            ["pid", "mount", "ipc", "uts", "network"].map(|kind| json!({"type": kind}));
        let capabilities =
            json!({"bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES});
        let mut linux = json!({"namespaces": namespaces});
        if let Some(filter) = self.filter {
            linux["seccomp"] = filter.clone();
        }
        json!({
            "ociVersion": "1.0.2",
            "root": {"path": "root", "readonly": false},
            "hostname": "container",
            "process": {
                "terminal": false,
                "user": {"uid": 0, "gid": 0},
                "args": ["bash", "-c", script],
                "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
                "cwd": own,
                "capabilities": capabilities,
                "noNewPrivileges": true,
            },
            "mounts": mounts,
            "linux": linux,
        })
    }
}

/// The program: ends by itself.
const PROGRAM: &str = "for ((i = 0; i < 400000; i++)); do ((n += i % 7)); done";

/// Ways of observing: a name, and the words of the command before `--` or `-p`.
const WAYS: [(&str, &str); 3] = [
    ("record", "record --quiet -e edge"),
    ("bursts", "record --quiet -e edge --budget 30 --bursts"),
    ("windows", "record --quiet -e edge --budget 30"),
];

/// Result of one way.
fn judge(output: &Output, data: &Path) -> Result<(), String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.starts_with("trommel:"));
    let first = first.unwrap_or_else(|| said.lines().next().unwrap_or_default());
    if !output.status.success() || said.contains("natively because") || said.contains("no windows")
    {
        return Err(format!("{} {first}", output.status));
    }
    let report = Command::new(trommel())
        .args(["report", "--json"])
        .arg(data)
        .output();
    let report = report.map_err(|e| e.to_string())?.stdout;
    match String::from_utf8_lossy(&report).contains("\"taken\"") {
        true => Ok(()),
        false => Err(format!("nothing seen {first}")),
    }
}

/// A program that is started, and one that runs already, by a command in the same container.
fn inside(engine: &Engine<'_>, way: &str) -> Result<(), String> {
    let bin = trommel();
    let data = engine.scratch.path("data");
    let _ = fs::remove_file(&data);
    let (bin, file) = (bin.display(), data.display());
    let started = format!("'{bin}' {way} -o '{file}' -- bash -c '{PROGRAM}'");
    let output = engine.command(&started)?.output();
    judge(&output.map_err(|e| e.to_string())?, &data)?;
    let _ = fs::remove_file(&data);
    let running = format!(
        "bash -c '{PROGRAM}; {PROGRAM}; {PROGRAM}' & p=$!; sleep 0.3; '{bin}' {way} --duration 1 -o '{file}' -p $p; r=$?; kill $p; exit $r"
    );
    let output = engine.command(&running)?.output();
    judge(&output.map_err(|e| e.to_string())?, &data)
}

/// Ends a container when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        // Its program was killed: it clears up after itself.
        let began = Instant::now();
        while began.elapsed() < PATIENCE && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that runs in a container, by a command on the host.
fn outside(engine: &Engine<'_>, way: &str) -> Result<(), String> {
    let mark = format!("trommel_container_{}=1", std::process::id());
    let endless = format!("exec bash -c '{mark}; while :; do {PROGRAM}; done'");
    let child = engine.command(&endless)?.stderr(Stdio::null()).spawn();
    let container = Running(child.map_err(|e| e.to_string())?);
    let pid = find(&format!("{mark}; while"))?;
    std::thread::sleep(Duration::from_millis(300));
    let data = engine.scratch.path("data");
    let _ = fs::remove_file(&data);
    let output = Command::new(trommel())
        .args(way.split(' '))
        .args(["--duration", "2", "-p", &pid.to_string(), "-o"])
        .arg(&data)
        .output();
    // Its files are found while it runs.
    let judged = judge(&output.map_err(|e| e.to_string())?, &data);
    let ended = Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status();
    ended.map_err(|e| e.to_string())?;
    drop(container);
    judged
}

/// Waits for the process whose command begins with `bash -c` and these words.
fn find(words: &str) -> Result<i32, String> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let processes = fs::read_dir("/proc").map_err(|e| e.to_string())?;
        let numbers = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is = |pid: &i32| {
            let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            text.strip_prefix("bash\0-c\0")
                .is_some_and(|rest| rest.starts_with(words))
        };
        if let Some(pid) = numbers.into_iter().find(is) {
            return Ok(pid);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("the container did not start".into())
}

/// Observes a program in a container, one way.
type Observe = fn(&Engine<'_>, &str) -> Result<(), String>;

/// Returns whether the machine has a tool.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let mut rows: Vec<(String, &str, Option<Value>, bool)> = Vec::new();
    let mut missing = Vec::new();
    match ["runc", "crun"]
        .into_iter()
        .filter(|tool| has(tool))
        .collect::<Vec<_>>()
    {
        tools if tools.is_empty() => missing.push("filters: neither runc nor crun".to_owned()),
        tools => {
            for tool in tools {
                rows.push((format!("{tool}, no filter"), tool, None, true));
                for (name, filter, inside) in filters::all(args, &mut missing) {
                    rows.push((format!("{tool}, {name}"), tool, Some(filter), inside));
                }
            }
        }
    }
    for tool in ["bwrap", "unshare"] {
        match has(tool) {
            true => rows.push((format!("{tool}, namespaces alone"), tool, None, true)),
            false => missing.push(format!("namespaces alone: no {tool}")),
        }
    }
    missing.sort();
    missing.dedup();
    let mut failed = 0;
    for (name, tool, filter, is_inside) in &rows {
        let engine = Engine {
            tool,
            filter: filter.as_ref(),
            scratch: &scratch,
        };
        if let Err(why) = engine.tried() {
            missing.push(format!("{name}: {tool} does not run here: {why}"));
            continue;
        }
        for (way, words) in WAYS {
            let places: [(&str, Observe); 2] = [("inside", inside), ("outside", outside)];
            for (place, observe) in places.into_iter().skip(usize::from(!is_inside)) {
                let result = observe(&engine, words);
                // What refuses perf events, or a call that only windows need, has no windows.
                failed += usize::from(result.is_err() && way != "windows");
                let result = result.map_or_else(|why| why, |()| "observed".into());
                println!("{name} | {place} | {way} | {result}");
            }
        }
    }
    for what in &missing {
        println!("not tried: {what}");
    }
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of them not observed")),
    }
}
