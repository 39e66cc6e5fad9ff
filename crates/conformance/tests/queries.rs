//! Same answers: what `record -q` sends and counts is what the reference engine does with the facts that a
//! single-stepper sees, message by message, for random queries over all classes and fields.
//!
//! `TROMMEL_QUERY_SEED` adds a seed of your own; a failure names the seed and the query.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_compress::random::SplitMix64;
use trommel_conformance::asked::{Answers, answers, steady};
use trommel_conformance::exec::{Scratch, cache_dir, trommel, workspace};
use trommel_conformance::program::compile;
use trommel_query::engine::Effect;
use trommel_query::pair::Word;
use trommel_query::tag::Where;
use trommel_query::{Field, Operation, Program, assemble};

/// Seeds of random queries.
const SEEDS: u64 = 12;
const LIMIT: u64 = 1_000_000;
/// Seed that `record` starts from.
const ENGINE_SEED: u64 = 1;
/// Optimisations that the program is built with.
const BUILDS: [&str; 2] = ["-O2", "-O0"];

fn main() {
    let args = Arguments::from_args();
    let own = std::env::var("TROMMEL_QUERY_SEED").ok();
    let own = own.map(|seed| seed.parse::<u64>().expect("a number"));
    let mut trials: Vec<Trial> = (0..SEEDS)
        .chain(own)
        .map(|seed| {
            let check = move || Ok(same(seed, &query(seed))?);
            Trial::test(format!("random queries, seed {seed}"), check)
        })
        .collect();
    for (name, text) in [
        (
            "edges",
            "for opBRANCH * every 16 collect pc misc; send 1 stop;",
        ),
        (
            "stores",
            "tag 1 symbol store_reference;\n\
             for opSTORE 1 always collect op1 op2 op3; if op1 <> 0 then send 3 stop else stop;",
        ),
        (
            "rates that change",
            "for opALU * opLOAD * opSTORE * every auto collect pc op1 res1; send 1 or drop; if filter 4 then count stop else stop;",
        ),
        (
            "counted and compared in generated code",
            "for opALU * opLOAD * opSTORE * opFLOAT * opMULT * always collect op1 op2 op3 res1; \
             if op1.i8@1 < 0 and op2.u16@2 >= 0x40 then count; if res1 bset 5 then count stop; \
             if op1.u32@4 = 0 then count stop else send 2 stop;",
        ),
        (
            "branches counted",
            "for opBRANCH * opJMP * always collect pc misc; count stop; \
             for opSTORE * always collect op1 op2; if op1.i64 > 100 then send 1 stop else if op1 bclr 1 then count stop; stop;",
        ),
        (
            "pairs of loads and stores",
            "for opLOAD * opSTORE * every 20 pair 16 collect pc op1 res2; \
             if res2 = second.res2 then send 1 stop else if distance > 8 then count stop; send 2 stop;",
        ),
        (
            "pairs of all instructions",
            "for opJMP * opBRANCH * opLOAD * opSTORE * opALU * opMULT * opFLOAT * opSYS * \
             every 5 pair 4 collect pc misc; send 1 stop;",
        ),
        (
            "everything",
            "for opJMP * opBRANCH * opLOAD * opSTORE * opALU * opMULT * opFLOAT * opSYS * \
             always collect pc op1 op2 op3 misc; send 1..3; if pc bset 1 then count; stop;",
        ),
    ] {
        trials.push(Trial::test(name, move || {
            (0..BUILDS.len() as u64).try_for_each(|seed| Ok(same(seed, text)?))
        }));
    }
    trials.push(Trial::test("rates follow the phases of a program", || {
        Ok(phases()?)
    }));
    trials.push(Trial::test("addresses relative to FS", || {
        Ok(relative_to_fs()?)
    }));
    libtest_mimic::run(&args, trials).exit();
}

fn build(flag: &str) -> Result<PathBuf, String> {
    let dir = cache_dir().join("queries");
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let out = dir.join(format!("mixed{flag}"));
    let flags = [
        flag,
        "-static",
        "-nostdlib",
        "-no-pie",
        "-fno-builtin",
        "-fno-stack-protector",
        "-fno-tree-loop-distribute-patterns",
        "-fcf-protection=none",
    ];
    let source = workspace().join("tests/queries/mixed.c");
    compile(&source, &flags.map(str::to_owned), &out)?;
    Ok(out)
}

/// Functions of a program: where they are.
fn functions(program: &Path) -> Result<BTreeMap<String, (u64, u64)>, String> {
    let said = Command::new("nm").arg("-S").arg(program).output();
    let said = said.map_err(|e| format!("nm: {e}"))?;
    let hex = |s: &str| u64::from_str_radix(s, 16).ok();
    let lines = String::from_utf8_lossy(&said.stdout).into_owned();
    Ok(lines
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [start, size, _, name] = words[..] else {
                return None;
            };
            Some((name.to_owned(), (hex(start)?, hex(start)? + hex(size)?)))
        })
        .collect())
}

/// One message: the queue, the instruction, the executions that it stands for, and the words.
type Line = (u64, u64, u64, Vec<u64>);

fn same(seed: u64, text: &str) -> Result<(), String> {
    let program = build(BUILDS[seed as usize % BUILDS.len()])?;
    let describe = |what: &str| format!("{what}\n{text}");
    let question = assemble(text).map_err(|found| describe(&format!("{found:?}")))?;
    let question = question.program;
    let functions = functions(&program)?;
    let rules = question.tags();
    let tag = |pc: u64| {
        let rule = rules.iter().rev().find(|rule| match &rule.place {
            Where::Symbol(name) => {
                let range = functions.get(name);
                range.is_some_and(|(from, to)| (*from..*to).contains(&pc))
            }
            Where::Range { from, to, .. } => (*from..*to).contains(&pc),
            Where::Module(name) => program.file_name().is_some_and(|f| f == name.as_str()),
        });
        rule.map_or(0, |rule| rule.tag)
    };
    let answers = answers(&program, &question, ENGINE_SEED, tag, LIMIT);
    let answers = answers.map_err(|e| describe(&format!("stepping: {e}")))?;
    let bin = trommel();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (file, data) = (scratch.path("q.rpa"), scratch.path("data"));
    let messages = scratch.path("messages");
    fs::write(&file, text).map_err(|e| e.to_string())?;
    let argv: [&Path; 10] = [
        bin,
        Path::new("record"),
        Path::new("-q"),
        &file,
        Path::new("--messages"),
        &messages,
        Path::new("-o"),
        &data,
        Path::new("--"),
        &program,
    ];
    let done = steady(&argv).stdout(Stdio::null()).status();
    done.map_err(|e| e.to_string())?;
    let sent = fs::read_to_string(&messages).map_err(|e| describe(&format!("no messages: {e}")))?;
    let sent: Vec<Line> = sent.lines().map(line).collect::<Result<_, _>>()?;
    compare(&question, &answers, &sent).map_err(|what| describe(&what))?;
    let report = report(bin, &data)?;
    totals(&question, &answers, &report).map_err(|what| describe(&what))
}

/// A line of the messages: queue, instruction, words.
fn line(text: &str) -> Result<Line, String> {
    let line: Value = serde_json::from_str(text).map_err(|e| format!("{text}: {e}"))?;
    let number = |value: &Value| value.as_u64().or_else(|| value["address"].as_u64());
    // Records have them in the order of fields; those of pairs alternate.
    let both = |field: Field| [Word::Field(field), Word::Second(field)];
    let names = Field::ALL
        .into_iter()
        .flat_map(both)
        .chain([Word::Distance]);
    let words = names.filter_map(|word| line["words"].get(word.name()).and_then(number));
    let of = |name: &str| line[name].as_u64().ok_or(format!("{text}: no {name}"));
    let stands_for = of("stands_for")?;
    Ok((
        of("queue")?,
        of("instruction")?,
        stands_for,
        words.collect(),
    ))
}

fn compare(question: &Program, answers: &Answers, sent: &[Line]) -> Result<(), String> {
    let fields = |at: usize| {
        let queries = question.queries();
        let query = queries.into_iter().find(|query| query.code.contains(&at));
        query.map_or(0, |query| query.layout().len())
    };
    let effects = answers.log.0.iter().zip(&answers.rates);
    let expected = effects.filter_map(|(effect, rate)| match effect {
        Effect::Message {
            at, queue, record, ..
        } => {
            let words = record.0[..fields(at.number())].to_vec();
            let (queue, rate) = (u64::from(*queue), u64::from(rate.one_in()));
            Some((queue, at.number() as u64, rate, words))
        }
        _ => None,
    });
    let expected: Vec<Line> = expected.collect();
    let differs = expected.iter().zip(sent).position(|(a, b)| a != b);
    if let Some(n) = differs {
        let (a, b) = (&expected[n], &sent[n]);
        return Err(format!("message {n} is {b:x?} and should be {a:x?}"));
    }
    match expected.len() == sent.len() {
        true => Ok(()),
        false => Err(format!(
            "there are {} messages and should be {}; the first beyond: {:x?}",
            sent.len(),
            expected.len(),
            expected.get(sent.len()).or(sent.get(expected.len())),
        )),
    }
}

fn report(bin: &Path, data: &Path) -> Result<Value, String> {
    let said = Command::new(bin)
        .args(["report", "--json", "--no-debug-info"])
        .arg(data)
        .output();
    let said = said.map_err(|e| e.to_string())?;
    serde_json::from_slice(&said.stdout).map_err(|e| e.to_string())
}

/// The sums that are reported are those of the messages and of what was counted.
fn totals(question: &Program, answers: &Answers, report: &Value) -> Result<(), String> {
    let log = &answers.log;
    let counted = log.counts(question);
    let mut counted_for = vec![0; counted.len()];
    for (effect, rate) in log.0.iter().zip(&answers.rates) {
        if let Effect::Counted { at, records } = effect {
            counted_for[at.number()] += records * u64::from(rate.one_in());
        }
    }
    let queries = report["queries"].as_array().ok_or("no queries")?;
    for instruction in queries
        .iter()
        .flat_map(|q| q["instructions"].as_array())
        .flatten()
    {
        let at = instruction["instruction"].as_u64().ok_or("no number")?;
        let sends =
            |e: &&Effect| matches!(e, Effect::Message { at: a, .. } if a.number() as u64 == at);
        let sent = log.0.iter().filter(sends).count() as u64;
        let expected = [sent, counted[at as usize], counted_for[at as usize]].map(Some);
        let said = ["sent", "counted", "counted_for"].map(|name| instruction[name].as_u64());
        if said != expected {
            return Err(format!(
                "instruction {at}: {said:?}, and should be {expected:?}"
            ));
        }
    }
    for query in queries {
        let of = |name: &str| query[name].as_u64();
        let messages = query["messages"].as_array().into_iter().flatten();
        let sum: u64 = messages.filter_map(|m| m["count"].as_u64()).sum();
        if of("sent") != Some(sum) || of("dropped") != Some(0) {
            return Err(format!("{sum} messages are told of in {query}"));
        }
    }
    Ok(())
}

/// Checks that each rare store is reported. Of frequent ones some are, and the counts of each phase are estimated rightly.
fn phases() -> Result<(), String> {
    const TEXT: &str = "tag 1 symbol store; for opSTORE 1 every auto collect op1; send 1 stop;";
    const RARE: u64 = 20_000;
    const FREQUENT: u64 = 100_000_000;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let [program, file, data, messages] =
        ["phases", "q.rpa", "data", "messages"].map(|name| scratch.path(name));
    let source = workspace().join("tests/queries/phases.c");
    compile(&source, &["-O2".to_owned()], &program)?;
    fs::write(&file, TEXT).map_err(|e| e.to_string())?;
    let bin = trommel();
    let mut record = Command::new(bin);
    record.arg("record").arg("-q").arg(&file).arg("--messages");
    record.arg(&messages).arg("-o").arg(&data).arg("--");
    record
        .arg(&program)
        .args([RARE, FREQUENT].map(|n| n.to_string()));
    let done = record.output().map_err(|e| e.to_string())?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    // By phase: records, executions they stand for, the variance of that, and N of the last one.
    let mut all = [[0_u64; 4]; 4];
    // Rare stores of the later half of their phase that are reported.
    let mut late = [0_u64; 4];
    let sent = fs::read_to_string(&messages).map_err(|e| e.to_string())?;
    for text in sent.lines() {
        let (_, _, n, words) = line(text)?;
        let (phase, number) = ((words[0] >> 32) as usize, words[0] & 0xffff_ffff);
        let sums = all.get_mut(phase).ok_or(format!("{text}: no phase"))?;
        *sums = [sums[0] + 1, sums[1] + n, sums[2] + n * (n - 1), n];
        late[phase] += u64::from(number >= RARE / 2);
    }
    // A busy machine may let the rate fall for a moment.
    let enough = RARE / 2 * 3 / 4;
    let whole = late[0] >= enough && late[2] >= enough;
    let ends = all.map(|[.., n]| n);
    if !whole || ends[0] != 1 || ends[2] != 1 || ends[1] < 8 || ends[3] < 8 {
        return Err(format!(
            "{late:?} of {RARE} rare stores, N in the end: {ends:?}"
        ));
    }
    for (phase, [records, stand_for, variance, _]) in all.into_iter().enumerate() {
        let executed = if phase % 2 == 0 { RARE } else { FREQUENT };
        let error = stand_for.abs_diff(executed) as f64;
        if error > 5.0 * (variance as f64).sqrt() + 100_000.0 {
            return Err(format!(
                "phase {phase}: {records} records for {stand_for} stores"
            ));
        }
        if phase % 2 == 1 && records > FREQUENT / 8 {
            return Err(format!("{records} records were made"));
        }
    }
    Ok(())
}

/// Whoever has set the base last, and however.
fn relative_to_fs() -> Result<(), String> {
    const TEXT: &str =
        "tag 1 symbol load_relative; for opLOAD 1 always collect res1 res2; send 1 stop;";
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let [program, file, data, messages] =
        ["segments", "q.rpa", "data", "messages"].map(|name| scratch.path(name));
    let source = workspace().join("tests/queries/segments.c");
    let flags = ["-O2", "-fno-stack-protector"].map(str::to_owned);
    compile(&source, &flags, &program)?;
    fs::write(&file, TEXT).map_err(|e| e.to_string())?;
    let bin = trommel();
    let mut record = Command::new(bin);
    record.arg("record").arg("-q").arg(&file).arg("--messages");
    record.arg(&messages).arg("-o").arg(&data).arg("--");
    let done = record.arg(&program).output().map_err(|e| e.to_string())?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    let sent = fs::read_to_string(&messages).map_err(|e| e.to_string())?;
    let told = sent.lines().map(|text| {
        let (_, _, _, words) = line(text)?;
        let [loaded, at] = words[..] else {
            return Err(format!("{text}: not two words"));
        };
        Ok(format!("{loaded} {at}\n"))
    });
    let told: String = told.collect::<Result<_, String>>()?;
    match told == printed && told.lines().count() >= 3 {
        true => Ok(()),
        false => Err(format!(
            "the program did\n{printed}and was said to do\n{told}"
        )),
    }
}

/// Random queries about what a program can be seen to do.
fn query(seed: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let mut below = move |bound: usize| random.below(bound as u64) as usize;
    let places = [
        "symbol sort",
        "symbol hash",
        "symbol oddities",
        "symbol store_reference",
        "symbol _start",
        "pc 0x401000..0x401100",
        "module \"mixed-O2\"",
    ];
    let mut text = String::new();
    for _ in 0..below(4) {
        let (tag, place) = (below(4), places[below(places.len())]);
        text.push_str(&format!("tag {tag} {place};\n"));
    }
    let mut free: Vec<(Operation, usize)> = (Operation::ALL.into_iter())
        .flat_map(|operation| (0..4).map(move |tag| (operation, tag)))
        .collect();
    for _ in 0..1 + below(4) {
        let mut system = false;
        text.push_str("for");
        for _ in 0..1 + below(6) {
            // Mostly tag 0, which most code has.
            let own = free
                .iter()
                .position(|(_, tag)| *tag == 0)
                .filter(|_| below(3) > 0);
            let (operation, tag) = match own {
                Some(_) => {
                    let zero: Vec<usize> = (0..free.len()).filter(|n| free[*n].1 == 0).collect();
                    free.swap_remove(zero[below(zero.len())])
                }
                None => free.swap_remove(below(free.len())),
            };
            system |= operation == Operation::System;
            text.push_str(&format!(" {} {tag}", operation.name()));
        }
        let rate = [
            "always",
            "always",
            "every 2",
            "every 7",
            "every 100",
            "every auto",
            "every auto 20%",
            "every 20 pair 9",
        ][below(8)];
        let most = if rate.contains("pair") { 3 } else { 7 };
        text.push_str(&format!(" {rate} collect"));
        let is_result = |f: &Field| matches!(f, Field::Res1 | Field::Res1Up);
        let mut fields: Vec<Field> = (Field::ALL.into_iter())
            .filter(|f| !(f.is_of_pipeline() || system && is_result(f)))
            .collect();
        while fields.len() > most || fields.len() > 1 && below(4) > 0 {
            fields.remove(below(fields.len()));
        }
        for field in &fields {
            text.push_str(&format!(" {}", field.name()));
        }
        text.push_str(";\n");
        for _ in 0..below(3) {
            let field = fields[below(fields.len())].name();
            let condition = match below(8) {
                0 => format!("filter {}", [2, 4, 16][below(3)]),
                1 => format!("{field}.u8@{} < {}", below(8), below(256)),
                2 => format!("{field} bset {:#x}", 1 << below(12)),
                3 => format!("{field}.i32 < 0"),
                4 => format!("{field}.u16@2 >= {}", below(2)),
                _ => format!("{field} <> 0"),
            };
            let action = ["count", "send 9", "send 4..6", "stop", "send 2 stop"][below(5)];
            text.push_str(&format!("    if {condition} then {action};\n"));
        }
        text.push_str(
            [
                "    send 1 stop;\n",
                "    count stop;\n",
                "    send 7 or drop stop;\n",
            ][below(3)],
        );
    }
    text
}
