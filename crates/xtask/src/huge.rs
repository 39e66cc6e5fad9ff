//! What `trommel run` gains by huge pages: compressors, and interpreters with more data than translations reach. Before that, what they are worth
//! here at all (`huge.c`).
//!
//! Rounds are interleaved; CPU time of the process tree, `trommel` included, ratios of the least and, in brackets, of the medians.

use std::fs;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, workspace};

use crate::bench::number_of_rounds;
use crate::budget::corpus;
use crate::unoptimised::row;

const WAYS: [&str; 2] = ["run", "run --no-huge-pages"];

/// Scripts: their name, the interpreter, and what it is given.
const SCRIPTS: [(&str, &str, &str); 5] = [
    (
        "a dictionary of 1.5 million numbers, looked up at random twelve times (python3)",
        "/usr/bin/python3",
        "import random\nrandom.seed(1)\nd = {}\nfor i in range(1500000): d[random.randrange(1 << 40)] = i\nk = list(d)\nrandom.shuffle(k)\n\
         s = 0\nfor r in range(12):\n    for x in k: s += d[x]\nprint(s)\n",
    ),
    (
        "a hash of 1.2 million numbers, gone through three times (perl)",
        "perl",
        "my %d; my $x = 1; for my $i (1..1200000) { $x = ($x * 1103515245 + 12345) % 2147483648; $d{$x} = $i; }\n\
         my $s = 0; for my $r (1..3) { for my $k (keys %d) { $s += $d{$k} } } print \"$s\\n\";\n",
    ),
    (
        "a table of 2 million numbers, looked up (lua5.4)",
        "lua5.4",
        "local d = {} local x = 1 for i = 1, 2000000 do x = (x * 1103515245 + 12345) % 2147483648 d[x] = i end\n\
         local s = 0 for r = 1, 5 do local y = 1 for i = 1, 2000000 do y = (y * 1103515245 + 12345) % 2147483648 s = s + d[y] end end print(s)\n",
    ),
    (
        "arrays of a million sums, gone through (gawk)",
        "gawk",
        "BEGIN { for (i = 0; i < 1500000; i++) a[(i * 7919) % 1000003] += i; for (r = 0; r < 6; r++) for (k in a) s += a[k]; print s }\n",
    ),
    (
        "four joins of 1.5 million rows by an index (sqlite3)",
        "sqlite3",
        "create table t(a integer primary key, b integer, c text);\n\
         with recursive n(i) as (select 1 union all select i+1 from n where i<1500000) insert into t select i,(i*7919)%1000003,'row '||i from n;\n\
         create index x on t(b); select sum(length(u.c)) from t join t u on u.b=t.a where t.a<1200000;\n\
         select sum(length(u.c)) from t join t u on u.b=t.a where t.a<1100000;\n\
         select sum(length(u.c)) from t join t u on u.b=t.a where t.a<1000000;\n\
         select sum(length(u.c)) from t join t u on u.b=t.a where t.a<900000;\n",
    ),
];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let rounds = match args {
        [] => 3,
        [flag, rounds] if flag == "--rounds" => number_of_rounds(Some(rounds))?,
        _ => return Err("huge [--rounds N]".into()),
    };
    let corpus = corpus()?;
    let file = |name: &str| corpus.join(name).to_string_lossy().into_owned();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let machine = scratch.path("machine");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-o"]).arg(&machine);
    output(gcc.arg(workspace().join("crates/xtask/src/huge.c")))?;
    println!("{}", output(&mut Command::new(&machine))?);
    println!("| program | native s | {} |", WAYS.join(" | "));
    println!("|{}", "---|".repeat(WAYS.len() + 2));
    let compressors = [
        (
            "zstd -19 of 24 MB",
            vec!["zstd", "-T1", "--single-thread", "-q", "-19", "-c"],
            "text24m.txt",
        ),
        (
            "xz -9 of 24 MB",
            vec!["xz", "-T1", "-9", "-c"],
            "text24m.txt",
        ),
        (
            "cc1 -O2 of a part of SQLite",
            vec!["gcc", "-w", "-O2", "-o", "/dev/null", "-c"],
            "sq_part.i",
        ),
    ];
    for (name, words, input) in compressors {
        let mut command: Vec<String> = words.into_iter().map(str::to_owned).collect();
        command.push(file(input));
        row(name, &command, None, &WAYS, rounds)?;
    }
    for (n, (name, interpreter, text)) in SCRIPTS.into_iter().enumerate() {
        let script = scratch.path(&format!("script{n}"));
        fs::write(&script, text).map_err(|e| e.to_string())?;
        let script = script.to_string_lossy().into_owned();
        let command = match interpreter {
            "sqlite3" => vec![
                interpreter.to_owned(),
                "-batch".into(),
                ":memory:".into(),
                format!(".read {script}"),
            ],
            "gawk" => vec![interpreter.to_owned(), "-f".into(), script],
            _ => vec![interpreter.to_owned(), script],
        };
        row(name, &command, None, &WAYS, rounds)?;
    }
    Ok(())
}
