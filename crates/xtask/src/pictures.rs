//! Pictures of first screens, for README.md: what commands print on a terminal of 80 columns, and the page in a browser.
//!
//! # Strategy
//! Each command runs in tmux, which is a terminal, and its screen is drawn as SVG with its colours. A command that goes on, as `top`
//! does, is looked at after some seconds. The page is drawn by chromium. The program is Debian's perl, so that numbers are those of a
//! program which nobody built for the picture.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anstyle_svg::Term;
use trommel_conformance::exec::{Scratch, output, required, trommel, workspace};

/// Makes the pictures of README.md; needs tmux, chromium and perl
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask pictures")]
pub(crate) struct Args {
    /// Directory of the pictures
    #[arg(long, value_name = "DIR", default_value = "docs/pictures")]
    out: PathBuf,
}

/// The program of README.md, and what became of it.
const BEFORE: &str = "for my $i (1..3000000) { $sum{$i % 1000} += $i }";
const AFTER: &str = "for my $i (1..3000000) { $sum[$i % 1000] += $i }";
const LONG: &str = "for my $i (1..2000000000) { $sum{$i % 1000} += $i }";

/// A picture of a terminal.
struct Scene {
    name: &'static str,
    /// The command that is shown after `$`.
    line: String,
    rows: u16,
    /// The moment of the picture; none: when the command has ended.
    after: Option<Duration>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    for tool in ["tmux", "chromium", "perl"] {
        required(tool)?;
    }
    let out = workspace().join(&args.out);
    fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    symlink(trommel(), scratch.path("trommel")).map_err(|e| e.to_string())?;
    for (name, program) in [("before", BEFORE), ("after", AFTER)] {
        let mut record = Command::new(trommel());
        record.args(["record", "--quiet", "-e", "edge,call,context", "-o"]);
        record.arg(scratch.path(&format!("{name}.data")));
        output(record.args(["--", "perl", "-e", program]))?;
    }
    let ended = |name, line: &str, rows| Scene {
        name,
        line: line.to_owned(),
        rows,
        after: None,
    };
    for scene in [
        ended("report", "trommel report --top 8 before.data", 24),
        ended("diff", "trommel diff --top 8 before.data after.data", 24),
        ended("stat", &format!("trommel stat -- perl -e '{BEFORE}'"), 24),
        Scene {
            name: "top",
            line: format!("trommel top -- perl -e '{LONG}'"),
            rows: 24,
            after: Some(Duration::from_secs(30)),
        },
    ] {
        let screen = shown(&scene, &scratch)?;
        let path = out.join(format!("{}.svg", scene.name));
        fs::write(&path, drawn(&screen)).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{}", path.display());
    }
    page(&scratch, &out.join("page.png"))
}

/// A server of tmux's, which ends with this.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn tmux(&self, words: &[&str]) -> Result<String, String> {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]);
        output(tmux.args(words))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

/// The screen of a scene, with the codes of its colours.
fn shown(scene: &Scene, scratch: &Scratch) -> Result<String, String> {
    const LIMIT: Duration = Duration::from_secs(120);
    let ended = scratch.path(&format!("{}.ended", scene.name));
    let script = scratch.path(&format!("{}.sh", scene.name));
    let shown = scene.line.replace('\'', "'\\''");
    let text = format!(
        "cd '{0}'\nPATH='{0}':$PATH\nprintf '%s\\n' '$ {shown}'\n{1}\ntouch '{2}'\nsleep 600\n",
        scratch.dir().display(),
        scene.line,
        ended.display()
    );
    fs::write(&script, text).map_err(|e| e.to_string())?;
    let terminal = Terminal {
        socket: scratch.path(&format!("{}.tmux", scene.name)),
    };
    let rows = scene.rows.to_string();
    let command = format!("sh '{}'", script.display());
    terminal.tmux(&["new-session", "-d", "-x", "80", "-y", &rows, &command])?;
    let began = Instant::now();
    let is_time = || match scene.after {
        Some(after) => began.elapsed() >= after,
        None => ended.exists(),
    };
    while !is_time() {
        if began.elapsed() > LIMIT {
            return Err(format!("{} does not end", scene.line));
        }
        sleep(Duration::from_millis(50));
    }
    // What was printed last may not be on the screen yet.
    sleep(Duration::from_millis(200));
    let screen = match scene.after {
        Some(_) => terminal.tmux(&["capture-pane", "-e", "-p"])?,
        // From the first line, which may have left the screen.
        None => terminal.tmux(&["capture-pane", "-e", "-p", "-S", "-"])?,
    };
    if scene.after.is_some() {
        terminal.tmux(&["send-keys", "q"])?;
    }
    let lines = screen.trim_end().lines().take(scene.rows.into());
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn drawn(screen: &str) -> String {
    // Wide enough for 80 columns of the font that the picture asks for.
    const WIDTH: usize = 720;
    Term::new().min_width_px(WIDTH).render_svg(screen)
}

/// The page that `report --html` makes, in a browser.
fn page(scratch: &Scratch, out: &Path) -> Result<(), String> {
    let file = scratch.path("page.html");
    let mut report = Command::new(trommel());
    output(
        report
            .args(["report", "--html"])
            .arg(&file)
            .arg(scratch.path("before.data")),
    )?;
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu"]);
    browser.args(["--hide-scrollbars", "--window-size=1200,800"]);
    browser.arg("--virtual-time-budget=4000");
    browser.arg(format!(
        "--user-data-dir={}",
        scratch.path("browser").display()
    ));
    browser.arg(format!("--screenshot={}", out.display()));
    output(browser.arg(format!("file://{}", file.display())))?;
    println!("{}", out.display());
    Ok(())
}
