//! Same behaviour: the real programs of the issue, on small inputs made here.
//!
//! Large inputs are `cargo xtask corpus`. A tool that is not installed is skipped, by name.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Job, Scratch, trommel, which};
use trommel_conformance::not_tested::not_tested;

const LIMIT: Duration = Duration::from_secs(30);

/// Command lines; TEXT, GZ, BZ2, XZ, ZST, C, I and SQL are replaced by files, CC1 by gcc's cc1.
const CASES: &[&[&str]] = &[
    &["true"],
    &[
        "ls",
        "-l",
        "--time-style=+%s",
        "/usr/bin/env",
        "/usr/share/doc",
    ],
    &["ls", "-R", "/usr/lib/gcc"],
    &["gzip", "-9", "-c", "TEXT"],
    &["gzip", "-dc", "GZ"],
    &["bzip2", "-c", "TEXT"],
    &["bzip2", "-dc", "BZ2"],
    &["xz", "-T1", "-5", "-c", "TEXT"],
    &["xz", "-T1", "-dc", "XZ"],
    &["zstd", "--single-thread", "-q", "-12", "-c", "TEXT"],
    &["xz", "-T2", "-3", "--block-size=40000", "-c", "TEXT"],
    &["xz", "-T2", "-dc", "XZ"],
    &["zstd", "-T2", "-q", "-9", "-c", "TEXT"],
    &["pigz", "-p", "3", "-c", "-n", "TEXT"],
    &["sort", "TEXT"],
    &["sort", "--parallel=2", "-S", "100k", "TEXT"],
    &["sort", "--parallel=1", "-n", "-k2", "TEXT"],
    &["sha256sum", "TEXT"],
    &["md5sum", "TEXT", "/no/such/file"],
    &["wc", "TEXT"],
    &["grep", "-c", "7.*of 3", "TEXT"],
    &["sed", "-n", "s/line \\([0-9]*\\)/<\\1>/p", "TEXT"],
    &[
        "gawk",
        "{ s[$4] += $2 } END { for (i = 0; i < 16; i++) print i, s[i] }",
        "TEXT",
    ],
    &[
        "perl",
        "-ne",
        "$h{$1} .= length if /(\\d+)$/; END { print \"$_ $h{$_}\\n\" for sort keys %h }",
        "TEXT",
    ],
    &[
        "/usr/bin/python3",
        "-c",
        "import json,re; print(json.dumps({i: re.sub('1', 'x', str(i*i)) for i in range(300)}))",
    ],
    &["/usr/bin/python3", "-c", "raise SystemExit(7)"],
    &["/usr/bin/python3", "-c", THREADS],
    &[
        "lua5.4",
        "-e",
        "local t={} for i=1,5000 do t[i%97]=(t[i%97] or 0)+i end print(#t, t[5]) error('no')",
    ],
    &[
        "sqlite3",
        "-batch",
        ":memory:",
        "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<2000) insert into t select x, x*x%97 from c; select b, count(*), sum(a) from t group by b order by 2, 1;",
    ],
    &["CC1", "-quiet", "-fpreprocessed", "I", "-O0", "-o", "-"],
    &["gcc", "-O2", "-c", "-o", "/dev/null", "C"],
    &["gcc", "-O2", "-S", "-o", "-", "C"],
    &[
        "sh",
        "-c",
        "for i in 1 2 3; do echo $i | tr 1 x; done; exit 3",
    ],
    &[
        "bash",
        "-c",
        "x=0; for ((i=0;i<2000;i++)); do ((x+=i*i%7)); done; echo $x; (exit 4); echo $?",
    ],
    &["env", "-i", "A=1", "env"],
    &["date", "-u", "-d", "@86400"],
    &[
        "find",
        "/usr/lib/gcc",
        "-name",
        "*.h",
        "-newermt",
        "2000-01-01",
    ],
    &["tar", "-cf", "-", "--mtime=@0", "-C", "/usr/share", "perl"],
    &["objdump", "-d", "/bin/true"],
];

/// A pool, a queue, locks and events of Python.
const THREADS: &str = "
import concurrent.futures, hashlib, queue, threading
def f(n): return hashlib.md5(str(sum(i * i for i in range(n))).encode()).hexdigest()
with concurrent.futures.ThreadPoolExecutor(4) as pool: print(list(pool.map(f, range(100, 900, 50))))
q, out = queue.Queue(), []
def work():
    while (x := q.get()) is not None: out.append(x * 2)
threads = [threading.Thread(target=work) for _ in range(5)]
[t.start() for t in threads]; [q.put(i) for i in range(300)]; [q.put(None) for _ in threads]; [t.join() for t in threads]
e = threading.Event(); threading.Timer(0.01, e.set).start(); print(sum(out), e.wait())
";

fn main() {
    trommel_conformance::signals::of_a_terminal();
    let args = Arguments::from_args();
    let trials = CASES
        .iter()
        .enumerate()
        .map(|(n, case)| {
            // A name is one line: nextest reads lists of them.
            let words = case.join(" ").replace('\n', " ");
            let short: String = words.chars().take(50).collect();
            let trial = Trial::test(format!("{n:02} {short}"), move || Ok(check(case)?));
            // These drive `cc1`, which is tried alone and without `-O2`, for twenty seconds: they are in the nightly tier.
            trial.with_ignored_flag(case[0] == "gcc" && case.contains(&"-O2"))
        })
        .collect();
    libtest_mimic::run(&args, trials).exit();
}

fn check(case: &[&str]) -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let mut argv = Vec::new();
    for word in case {
        let Some(word) = replace(word, &scratch)? else {
            not_tested(format_args!("{}: cannot make {word} here", case[0]));
            return Ok(());
        };
        argv.push(word);
    }
    if which(&argv[0]).is_none() {
        not_tested(format_args!("{}: not installed", argv[0]));
        return Ok(());
    }
    let mut job = Job::new(argv, scratch.dir());
    job.env = [
        ("LC_ALL", "C"),
        ("PERL_HASH_SEED", "0"),
        ("PYTHONHASHSEED", "0"),
    ]
    .map(|(k, v)| (k.into(), v.into()))
    .into();
    let bin = trommel();
    job.check(bin, LIMIT)
}

/// Makes the input that a word stands for; `None` when the tool to make it is missing.
fn replace(word: &str, scratch: &Scratch) -> Result<Option<String>, String> {
    let text = scratch.path("text");
    let save = |path: &Path, data: &[u8]| fs::write(path, data).map_err(|e| e.to_string());
    let made = |tool: &[&str], name: &str| -> Result<Option<String>, String> {
        save(&text, &sample())?;
        let Ok(done) = Command::new(tool[0]).args(&tool[1..]).arg(&text).output() else {
            return Ok(None);
        };
        let path = scratch.path(name);
        save(&path, &done.stdout)?;
        Ok(Some(path.to_string_lossy().into_owned()))
    };
    match word {
        "TEXT" => {
            save(&text, &sample())?;
            Ok(Some(text.to_string_lossy().into_owned()))
        }
        "GZ" => made(&["gzip", "-c"], "t.gz"),
        "BZ2" => made(&["bzip2", "-c"], "t.bz2"),
        "XZ" => made(&["xz", "-c"], "t.xz"),
        "C" | "I" => {
            let path = scratch.path(if word == "C" { "t.c" } else { "t.i" });
            save(&path, SOURCE.as_bytes())?;
            Ok(Some(path.to_string_lossy().into_owned()))
        }
        "CC1" => {
            let Ok(done) = Command::new("gcc").arg("-print-prog-name=cc1").output() else {
                return Ok(None);
            };
            Ok(Some(
                String::from_utf8_lossy(&done.stdout).trim().to_owned(),
            ))
        }
        other => Ok(Some(other.to_owned())),
    }
}

/// A small C file with no headers, for compilers to work on.
const SOURCE: &str = "
struct node { struct node *l, *r; int k; };
static int depth(struct node *n) { if (!n) return 0; int a = depth(n->l), b = depth(n->r); return 1 + (a > b ? a : b); }
static unsigned hash(const char *s) { unsigned h = 5381; while (*s) h = h * 33 ^ (unsigned char)*s++; return h; }
int sum(const int *v, int n) { int s = 0; for (int i = 0; i < n; i++) s += v[i] * v[n - 1 - i]; return s; }
int pick(int op, int a, int b) { switch (op) { case 0: return a + b; case 1: return a - b; case 2: return a * b; case 3: return a / (b | 1); case 4: return a ^ b; default: return hash(\"x\"); } }
int top(struct node *n) { return depth(n) + n->k; }
";

fn sample() -> Vec<u8> {
    let mut x = 12345_u64;
    let mut text = Vec::new();
    while text.len() < 200_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.extend_from_slice(format!("line {} of {}\n", x >> 48, x >> 60).as_bytes());
    }
    text
}
