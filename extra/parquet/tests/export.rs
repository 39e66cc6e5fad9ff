//! Output of `trommel-parquet` for a database, read back with the reader of the parquet crate. It equals that of `trommel report --json` for
//! the same database: of processes that the daemon profiled, and of epochs that are made here.
//!
//! `TROMMEL_BIN` names the command; `cargo xtask parquet` builds it and sets that. Where the kernel allows this user no perf events there
//! are no windows, and the test with the daemon ends without one, saying so.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use trommel_profile::memory::{Cache, Conflict, Level, Levels, Pair};
use trommel_profile::sampled::Sampled;
use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Module, Origin, Profile, Site};
use trommel_store::database::{Database, Span};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

/// A moment that epochs of several minutes are made at.
const MOMENT: u64 = 1_795_000_000_000;

/// A directory that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("trommel-parquet-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("temp dir");
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn trommel() -> Command {
    let bin = std::env::var_os("TROMMEL_BIN");
    Command::new(bin.expect("TROMMEL_BIN is not set: run `cargo xtask parquet`"))
}

fn report(database: &Path) -> Value {
    let out = trommel().args(["report", "--json"]).arg(database).output();
    let out = out.expect("trommel runs");
    assert!(out.status.success(), "{}", stderr(&out));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn export(database: &Path, to: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel-parquet"));
    let command = command.arg(database).arg("-o").arg(to).arg("--json");
    command.output().expect("it runs")
}

/// A row, by the names of its columns.
type Row = BTreeMap<String, Field>;

fn table(dir: &Path, name: &str) -> Vec<Row> {
    let file = File::open(dir.join(format!("{name}.parquet"))).expect("a table");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows = reader.get_row_iter(None).expect("rows");
    let row = |row: parquet::record::Row| {
        let cells = row.get_column_iter();
        cells
            .map(|(name, cell)| (name.clone(), cell.clone()))
            .collect()
    };
    rows.map(|r| row(r.expect("a row"))).collect()
}

fn number(row: &Row, column: &str) -> u64 {
    match &row[column] {
        Field::ULong(number) => *number,
        other => panic!("{column}: {other:?}"),
    }
}

/// Returns a field as in JSON.
fn json(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Str(text) => text.as_str().into(),
        Field::ULong(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        other => panic!("{other:?}"),
    }
}

/// Names of a place: path and build id of its module, vaddr, function, file and line.
type At = [Value; 6];

/// Returns the place in a row's columns with this prefix.
fn at(row: &Row, prefix: &str) -> At {
    ["module", "build_id", "vaddr", "function", "file", "line"]
        .map(|name| json(&row[&format!("{prefix}{name}")]))
}

/// Returns the place that a report gives.
fn place(report: &Value, place: &Value) -> At {
    let all = report["modules"].as_array().expect("modules");
    let module = all.iter().find(|m| m["id"] == place["module"]);
    let module = module.expect("the place's module");
    [
        module["path"].clone(),
        module["build_id"].clone(),
        place["vaddr"].clone(),
        place["function"].clone(),
        place["file"].clone(),
        place["line"].clone(),
    ]
}

/// Sums of the counts of equal keys.
type Sums = BTreeMap<String, u64>;

fn add(sums: &mut Sums, key: impl std::fmt::Debug, count: u64) {
    *sums.entry(format!("{key:?}")).or_default() += count;
}

fn array<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Requires that DuckDB's module for Python reads the tables, with as many rows and the same sums. Where it is not installed, says so.
fn read_by_duckdb(dir: &Path) {
    let python = |script: &str, word: &str| {
        let mut python = Command::new("python3");
        python.args(["-c", script, word]).current_dir(dir).output()
    };
    if !python("import duckdb", "").is_ok_and(|done| done.status.success()) {
        eprintln!("not tested: python3's module duckdb is not installed");
        return;
    }
    for name in ["edges", "calls", "values", "latencies"] {
        let rows = table(dir, name);
        let sum: u64 = rows.iter().map(|row| number(row, "count")).sum();
        let query =
            format!("select count(*), coalesce(sum(count), 0)::hugeint from '{name}.parquet'");
        let script = "import duckdb,sys; print(*duckdb.sql(sys.argv[1]).fetchall()[0])";
        let out = python(script, &query).expect("python3 runs");
        let read = String::from_utf8_lossy(&out.stdout).into_owned();
        let wanted = format!("{} {sum}", rows.len());
        assert_eq!(read.trim(), wanted, "{name}: {}", stderr(&out));
    }
}

/// Compares the counts of all tables with those of a report; how many there are of each table.
fn agree(report: &Value, dir: &Path) -> [usize; 4] {
    read_by_duckdb(dir);
    let transfers = ["edges", "calls"].map(|name| {
        let (mut wanted, mut found) = (Sums::new(), Sums::new());
        for entry in array(report, name) {
            let ends = [&entry["from"], &entry["to"]].map(|end| place(report, end));
            let count = entry["count"].as_u64().expect("a count");
            add(&mut wanted, (ends, &entry["kind"]), count);
        }
        for row in table(dir, name) {
            let ends = [at(&row, "from_"), at(&row, "to_")];
            add(
                &mut found,
                (ends, &json(&row["kind"])),
                number(&row, "count"),
            );
        }
        assert_eq!(found, wanted, "{name}");
        wanted.len()
    });
    let kinds = [
        ("values", "value"),
        ("types", "type"),
        ("addresses", "address"),
    ];
    let (mut wanted, mut found) = (Sums::new(), Sums::new());
    for (name, kind) in kinds {
        for entry in array(report, name) {
            for part in array(entry, "top") {
                let key = (place(report, &entry["at"]), kind, part["value"].as_u64());
                add(&mut wanted, key, part["count"].as_u64().expect("a count"));
            }
        }
    }
    for row in table(dir, "values") {
        let Field::Str(kind) = &row["kind"] else {
            panic!("a text");
        };
        let key = (at(&row, ""), kind.as_str(), Some(number(&row, "value")));
        add(&mut found, key, number(&row, "count"));
    }
    assert_eq!(found, wanted, "values");
    let values = wanted.len();
    let (mut wanted, mut found) = (Sums::new(), Sums::new());
    for entry in array(report, "latencies") {
        for part in array(entry, "top") {
            let key = (place(report, &entry["at"]), part["value"].as_u64());
            add(&mut wanted, key, part["count"].as_u64().expect("a count"));
        }
    }
    for row in table(dir, "latencies") {
        let key = (at(&row, ""), Some(number(&row, "cycles")));
        add(&mut found, key, number(&row, "count"));
    }
    assert_eq!(found, wanted, "latencies");
    [transfers[0], transfers[1], values, wanted.len()]
}

#[test]
fn what_the_daemon_wrote_has_the_counts_of_its_report() {
    let scratch = Scratch::new();
    let words = ["record", "--budget", "5", "-o", "/dev/null", "--", "true"];
    let tried = trommel().args(words).output().expect("trommel runs");
    if let Some(why) = stderr(&tried).lines().find(|l| l.contains("no windows")) {
        eprintln!("skipped: {why}");
        return;
    }
    let program = scratch.path("values");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/budget/values.c");
    let built = Command::new("cc")
        .args(["-O2", "-g", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(built.is_ok_and(|status| status.success()), "cc");
    let database = scratch.path("profiles");
    for kinds in ["edge,call,value", "latency"] {
        let mut running = Command::new(&program);
        let running = running.arg("100000000000").stdout(Stdio::null()).spawn();
        let mut running = running.expect("the program runs");
        let mut daemon = trommel();
        daemon.args([
            "daemon", "--budget", "5", "--epoch", "1s", "-e", kinds, "--db",
        ]);
        daemon
            .arg(&database)
            .args(["-p", &running.id().to_string()]);
        let mut daemon = daemon
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon runs");
        std::thread::sleep(std::time::Duration::from_secs(5));
        running.kill().expect("it ends");
        running.wait().expect("it ends");
        assert!(daemon.wait().expect("it ends").success(), "{kinds}");
    }
    let tables = scratch.path("tables");
    let out = export(&database, &tables);
    assert!(out.status.success(), "{}", stderr(&out));
    let report = report(&database);
    let [edges, calls, values, latencies] = agree(&report, &tables);
    assert!(
        edges > 0 && values > 16 && latencies > 0,
        "{edges} {calls} {values} {latencies}"
    );
    let epochs = table(&tables, "epochs");
    assert!(epochs.len() > 4, "{}", epochs.len());
    assert_eq!(
        Some(epochs.len() as u64),
        report["database"]["files"].as_u64()
    );
    let windows: u64 = epochs.iter().map(|row| number(row, "windows")).sum();
    assert_eq!(Some(windows), report["windows"]["taken"].as_u64());
    let line = table(&tables, "values").iter().any(|row| {
        matches!(&row["file"], Field::Str(file) if file.ends_with("values.c"))
            && row["function"] == Field::Str("main".into())
    });
    assert!(line, "no load of main with its line");
    let levels = table(&tables, "latencies");
    assert!(
        levels
            .iter()
            .any(|row| row["level"] == Field::Str("L1".into()))
    );
}

/// An epoch of a process with something for each table.
fn profile(pid: u32, count: u64) -> Profile {
    let at = |n| Place::new(ModuleId(1), Vaddr(n));
    let anon = Place::new(ModuleId(0), Vaddr(u64::MAX >> 17));
    let kind = |place: Place, counts: &[(u64, u64)]| KindProfile {
        seen: counts.iter().map(|(_, n)| n).sum(),
        messages: 1,
        counts: [(place, counts.to_vec())].into(),
    };
    let branch = Site::Conditional {
        taken: at(0x30),
        fallthrough: at(0x12),
    };
    let sampled = Sampled {
        samples: 40,
        executions: 4.0 * count as f64,
        variance: 90.0 * count as f64,
        probability: 0.5,
        factor_error: 0.0,
    };
    let mut windows = Windows {
        taken: 40,
        cpu: 1_000_000_000,
        levels: Some(Levels {
            own: 30,
            cycle: 0.4,
            levels: [(Cache::L1, 4, 10), (Cache::Memory, 200, u64::MAX)]
                .map(|(cache, typical, below)| Level {
                    cache,
                    typical,
                    below,
                    mistaken: 0.0,
                })
                .to_vec(),
        }),
        ..Windows::default()
    };
    let mut kinds = BTreeMap::new();
    for (of, place, counts) in [
        (
            Kind::Edge,
            at(0x10),
            vec![(at(0x12).word(), count), (at(0x30).word(), 3 * count)],
        ),
        (Kind::Call, at(0x40), vec![(anon.word(), 4 * count)]),
        (
            Kind::Value,
            at(0x50),
            vec![(u64::MAX, count), (u64::MAX - 1, 3 * count)],
        ),
        (Kind::Type, at(0x60), vec![(0x7000, 4 * count)]),
        (Kind::Latency, at(0x70), vec![(5, 3 * count), (199, count)]),
    ] {
        kinds.insert(of, kind(place, &counts));
        windows.sites.entry(of).or_default().insert(place, sampled);
    }
    let pair = Pair {
        conflict: Conflict::Size,
        store: at(0x80),
        load: at(0x90),
    };
    windows.pairs.insert(pair, sampled);
    let module = |id, path: &[u8], build_id: &[u8]| Module {
        id: ModuleId(id),
        path: path.into(),
        build_id: build_id.into(),
        code: None,
        loaded: None,
    };
    Profile {
        origin: Origin {
            pid,
            ..Origin::default()
        },
        command: vec![b"app".to_vec(), vec![0xff]],
        compressor: "windows".into(),
        modules: vec![
            module(0, b"[anon]", &[]),
            module(1, b"/nowhere/app\xff", &[0xab, 0xcd]),
        ],
        kinds,
        sites: [(at(0x10), branch), (at(0x40), Site::IndirectCall)].into(),
        windows: Some(windows),
        ..Profile::default()
    }
}

fn write(database: &Path, pid: u32, minute: u64, count: u64) -> PathBuf {
    let database = Database::create(database).expect("temp dir");
    let writer = database.writer("web1", b"/nowhere/app", &[0xab, 0xcd]);
    let from = MOMENT + 60_000 * minute;
    let span = Span {
        from,
        to: from + 60_000,
    };
    writer.write(&profile(pid, count), span).expect("written")
}

#[test]
fn one_epoch_has_the_limits_of_its_report() {
    let scratch = Scratch::new();
    let (database, tables) = (scratch.path("profiles"), scratch.path("tables"));
    write(&database, 7, 0, 1000);
    let out = export(&database, &tables);
    assert!(out.status.success(), "{}", stderr(&out));
    let report = report(&database);
    assert_eq!(agree(&report, &tables), [2, 1, 3, 2]);
    let close = |row: &Row, column: &str, wanted: &Value| {
        let (found, wanted) = (json(&row[column]).as_f64(), wanted.as_f64());
        let (found, wanted) = (found.expect(column), wanted.expect(column));
        assert!(
            (found - wanted).abs() <= 1e-5 * wanted.abs(),
            "{column}: {found} {wanted}"
        );
    };
    for name in ["edges", "calls"] {
        for (row, entry) in sorted(table(&tables, name))
            .iter()
            .zip(array(&report, name))
        {
            for column in ["count", "low", "high", "samples_of_site", "draws_of_site"] {
                close(row, column, &entry[column]);
            }
            assert_eq!(json(&row["kind"]), entry["kind"]);
        }
    }
    let only = |kind: &str| {
        let of = |row: &Row| row["kind"] == Field::Str(kind.into());
        let all = table(&tables, "values").into_iter();
        all.filter(of).collect::<Vec<_>>()
    };
    for (name, rows) in [
        ("values", only("value")),
        ("types", only("type")),
        ("latencies", table(&tables, "latencies")),
    ] {
        let entry = &report[name][0];
        let parts = array(entry, "top");
        assert_eq!(rows.len(), parts.len(), "{name}");
        for (row, part) in sorted(rows).iter().zip(parts) {
            for column in [
                "executions",
                "executions_low",
                "executions_high",
                "samples",
                "draws",
                "kept",
            ] {
                close(row, column, &entry[column]);
            }
            for column in ["count", "low", "high", "share", "share_low", "share_high"] {
                close(row, column, &part[column]);
            }
        }
    }
    let slow = table(&tables, "latencies");
    let levels: Vec<_> = slow.iter().map(|row| json(&row["level"])).collect();
    assert_eq!(levels, ["L1", "memory"]);
    let [epoch] = &table(&tables, "epochs")[..] else {
        panic!("one epoch");
    };
    assert_eq!(epoch["host"], Field::Str("web1".into()));
    assert_eq!(epoch["begin"], Field::TimestampMillis(MOMENT as i64));
    assert_eq!(epoch["end"], Field::TimestampMillis(MOMENT as i64 + 60_000));
    assert_eq!(epoch["merged"], Field::Bool(false));
    assert_eq!(epoch["program_build_id"], Field::Str("abcd".into()));
    assert_eq!(number(epoch, "pid"), 7);
    let [conflict] = &table(&tables, "conflicts")[..] else {
        panic!("one pair");
    };
    assert_eq!(conflict["kind"], Field::Str("size".into()));
    assert_eq!(
        (number(conflict, "count"), number(conflict, "store_vaddr")),
        (4000, 0x80)
    );
    // What joins tables.
    for name in ["edges", "calls", "values", "latencies", "conflicts"] {
        let all = table(&tables, name);
        assert!(
            all.iter().all(|row| row["epoch"] == epoch["epoch"]),
            "{name}"
        );
    }
    let Field::Str(file) = &epoch["epoch"] else {
        panic!("a text");
    };
    assert!(database.join(file).is_file(), "{file}");
}

/// Sorts rows as reports do: most first.
fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by_key(|row| std::cmp::Reverse(number(row, "count")));
    rows
}

#[test]
fn epochs_count_once_and_damaged_ones_are_left_out_and_named() {
    let scratch = Scratch::new();
    let (database, tables) = (scratch.path("profiles"), scratch.path("tables"));
    let files: Vec<PathBuf> = (0..6).map(|n| write(&database, 7, n, 1000 + n)).collect();
    let sizes = files
        .iter()
        .map(|file| fs::metadata(file).expect("an epoch").len());
    // Too much by a byte, long after.
    let kept = Database::at(&database).keep("web1", sizes.sum::<u64>() - 1, MOMENT + 360_000_000);
    assert!(kept.expect("kept").merged > 1);
    for n in 10..12 {
        write(&database, 8, n, 500);
    }
    let damaged = write(&database, 9, 20, 77);
    let mut bytes = fs::read(&damaged).expect("an epoch");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&damaged, bytes).expect("an epoch");
    let out = export(&database, &tables);
    assert!(out.status.success(), "{}", stderr(&out));
    let said = stderr(&out);
    let name = damaged
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(
        said.contains("left out: ") && said.contains(&name),
        "{said}"
    );
    let summary: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(summary["schema"], "trommel.parquet/1");
    assert_eq!(array(&summary, "skipped").len(), 1);
    let report = report(&database);
    assert_eq!(summary["files"], report["database"]["files"]);
    assert_eq!(agree(&report, &tables), [2, 1, 3, 2]);
    for made in array(&summary, "tables") {
        let rows = table(&tables, made["name"].as_str().expect("a name")).len();
        assert_eq!(made["rows"].as_u64(), Some(rows as u64));
    }
    let merged = table(&tables, "epochs");
    assert!(merged.iter().any(|row| row["merged"] == Field::Bool(true)));
    // Nothing else is left in the directory.
    assert_eq!(fs::read_dir(&tables).expect("tables").count(), 6);
}

#[test]
fn what_is_no_database_is_refused_with_what_to_do() {
    let scratch = Scratch::new();
    let tables = scratch.path("tables");
    fs::write(scratch.path("file"), b"x").expect("temp dir");
    fs::create_dir(scratch.path("empty")).expect("temp dir");
    for (name, wanted) in [
        ("nowhere", "trommel daemon"),
        ("file", "no directory"),
        ("empty", "no epochs"),
    ] {
        let out = export(&scratch.path(name), &tables);
        let said = stderr(&out);
        assert!(!out.status.success(), "{name}");
        assert!(
            said.contains(wanted) && said.contains(name),
            "{name}: {said}"
        );
        assert!(out.stdout.is_empty());
        let left = fs::read_dir(&tables).map_or(0, |dir| dir.count());
        assert_eq!(left, 0, "{name}");
    }
    let file = scratch.path("file");
    write(&scratch.path("profiles"), 7, 0, 1000);
    let out = export(&scratch.path("profiles"), &file);
    assert!(!out.status.success() && stderr(&out).contains("cannot be made"));
}
