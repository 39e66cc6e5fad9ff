//! The database holds each epoch once, whoever is killed when, and whatever is damaged, merged, copied or read meanwhile.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use proptest::prelude::*;
use trommel_profile::sampled::Sampled;
use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Module, Origin, Profile, Run};
use trommel_store::StoreError;
use trommel_store::database::{Database, EpochFilter, Reading, Span};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

const MINUTE: u64 = 60_000;
/// A moment long after all epochs here.
const LATER: u64 = 1000 * 30 * 86_400_000;
const HOST: &str = "here";

/// A directory that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("trommel-database-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn database(&self) -> Database {
        Database::create(&self.0).expect("temp dir")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An epoch of a process in which a load had `count` times the value `value`.
fn profile(pid: u32, from: u64, value: u64, count: u64) -> Profile {
    let place = Place::new(ModuleId(1), Vaddr(0x10));
    let data = KindProfile {
        seen: count,
        messages: count,
        counts: [(place, vec![(value, count)])].into(),
    };
    let sampled = Sampled {
        samples: count,
        executions: count as f64,
        variance: count as f64,
        probability: 1.0,
        factor_error: 0.0,
    };
    let mut windows = Windows {
        taken: 1,
        ..Windows::default()
    };
    windows
        .sites
        .entry(Kind::Value)
        .or_default()
        .insert(place, sampled);
    let module = |id, path: &str| Module {
        id: ModuleId(id),
        path: path.into(),
        ..Module::default()
    };
    Profile {
        origin: Origin {
            pid,
            ..Origin::default()
        },
        command: vec![b"app".to_vec()],
        modules: vec![module(0, "[anon]"), module(1, "/bin/app")],
        kinds: [(Kind::Value, data)].into(),
        run: Run {
            started: from * 1_000_000,
            wall: 1_000_000,
            ..Run::default()
        },
        windows: Some(windows),
        ..Profile::default()
    }
}

fn write(
    database: &Database,
    host: &str,
    program: &str,
    pid: u32,
    from: u64,
    count: u64,
) -> PathBuf {
    let writer = database.writer(host, program.as_bytes(), &[7; 20]);
    let span = Span {
        from,
        to: from + 1000,
    };
    writer
        .write(&profile(pid, from, from, count), span)
        .expect("written")
}

fn read(database: &Database) -> Reading {
    database.read(&EpochFilter::default()).expect("a directory")
}

/// Events in all, which are told apart by how many there are of each: powers of two.
fn seen(reading: &Reading) -> u64 {
    let kinds = reading.processes.iter().flat_map(|p| p.kinds.values());
    kinds.map(|data| data.seen).sum()
}

fn files(path: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let each = entries.flat_map(|entry| match entry.path() {
        directory if directory.is_dir() => files(&directory),
        file => [file].into(),
    });
    each.collect()
}

fn epochs(path: &Path) -> BTreeSet<PathBuf> {
    let mut all = files(path);
    all.retain(|file| file.extension().is_some_and(|e| e == "epoch"));
    all
}

#[test]
fn processes_programs_times_and_machines_are_told_apart() {
    let scratch = Scratch::new();
    let database = scratch.database();
    assert_eq!(read(&database).files, 0);
    write(&database, HOST, "/bin/app", 1, MINUTE, 1);
    write(&database, HOST, "/bin/app", 1, 2 * MINUTE, 2);
    write(&database, HOST, "/bin/app", 2, 2 * MINUTE, 4);
    write(&database, HOST, "/bin/other", 2, 2 * MINUTE, 8);
    write(&database, "elsewhere", "/bin/app", 1, 3 * MINUTE, 16);
    let reading = read(&database);
    assert_eq!((reading.files, seen(&reading)), (5, 31));
    assert_eq!(reading.processes.len(), 4);
    assert_eq!(reading.hosts, ["elsewhere", HOST].map(String::from).into());
    assert_eq!(reading.programs.len(), 2);
    assert_eq!(
        reading.span,
        Some(Span {
            from: MINUTE,
            to: 3 * MINUTE + 1000
        })
    );
    let time = Some(Span {
        from: 2 * MINUTE,
        to: 3 * MINUTE,
    });
    let part = database.read(&EpochFilter { time }).expect("a directory");
    assert_eq!((part.files, seen(&part)), (3, 14));
    let file = epochs(&scratch.0).pop_first().expect("one");
    let alone = trommel_store::read(&file)
        .expect_err("no profile file")
        .to_string();
    assert!(alone.contains("an epoch of a database"), "{alone}");
    let missing = Database::at(&scratch.0.join("missing")).read(&EpochFilter::default());
    assert!(
        matches!(missing, Err(StoreError::Missing { .. })),
        "{missing:?}"
    );
}

/// A FIFO has no end until somebody writes to it.
#[test]
fn what_is_no_file_is_left_out_and_not_waited_for() {
    let scratch = Scratch::new();
    let database = scratch.database();
    fs::write(scratch.0.join("dropped.noise"), vec![b'1'; 1 << 20]).expect("written");
    for name in ["dropped.other", "lock.here"] {
        let made = std::process::Command::new("mkfifo")
            .arg(scratch.0.join(name))
            .status();
        assert!(made.expect("mkfifo").success());
    }
    let reading = database.read(&EpochFilter::default()).expect("read");
    assert_eq!((reading.dropped.len(), reading.skipped.len()), (0, 2));
    let kept = database.keep(HOST, 0, LATER);
    assert!(kept.is_err_and(|why| why.to_string().contains("lock.here")));
}

#[test]
fn what_is_merged_stays_and_what_is_dropped_is_told() {
    let scratch = Scratch::new();
    let database = scratch.database();
    for n in 0..40 {
        write(
            &database,
            HOST,
            "/bin/app",
            1 + n % 3,
            u64::from(n) * MINUTE,
            1 << n,
        );
        write(
            &database,
            "elsewhere",
            "/bin/app",
            9,
            u64::from(n) * MINUTE,
            0,
        );
    }
    let all = (1 << 40) - 1;
    let plenty = database.keep(HOST, 1 << 30, LATER).expect("kept");
    assert_eq!((plenty.files, plenty.merged, plenty.dropped), (40, 0, 0));
    let size = plenty.bytes;
    // What goes on is left alone.
    let young = database.keep(HOST, size / 2, 30 * MINUTE).expect("kept");
    assert_eq!(young.merged, 0);
    assert!(young.dropped > 0);
    let dropped = young.dropped;
    let left = all - ((1 << dropped) - 1);
    assert_eq!(seen(&read(&database)), left, "the oldest went");
    let merged = database.keep(HOST, size / 4, LATER).expect("kept");
    assert_eq!((merged.files, merged.dropped), (1, 0));
    let reading = read(&database);
    assert_eq!(seen(&reading), left);
    // Files of other machines are theirs.
    assert_eq!(reading.files, 41);
    let sum = &reading
        .processes
        .iter()
        .find(|p| p.origin.pid == 0)
        .expect("merged");
    assert_eq!(sum.run.started, dropped * MINUTE * 1_000_000);
    assert_eq!(sum.windows.as_ref().map(|w| w.taken), Some(40 - dropped));
    let [told] = &reading.dropped[..] else {
        panic!("{:?}", reading.dropped);
    };
    assert_eq!(
        (told.host.as_str(), told.files, told.from),
        (HOST, dropped, 0)
    );
    assert_eq!(told.to, (dropped - 1) * MINUTE + 1000);
    // Nothing is so large that it must stay.
    let none = database.keep(HOST, 10, LATER).expect("kept");
    assert_eq!((none.bytes, none.dropped), (0, 1));
    assert_eq!(read(&database).dropped[0].files, dropped + 1);
}

#[test]
fn many_values_are_thinned_and_their_sum_stays_about_what_it_was() {
    let scratch = Scratch::new();
    let database = scratch.database();
    let mut all = 0;
    for n in 0..1001 {
        write(&database, HOST, "/bin/app", 1, n * MINUTE, 100 + n);
        all += 100 + n;
    }
    // There are too many files.
    let kept = database.keep(HOST, 1 << 30, LATER).expect("kept");
    assert!(
        kept.merged > 0 && kept.files < 1000 && kept.dropped == 0,
        "{kept:?}"
    );
    let reading = read(&database);
    let [profile] = &reading.processes[..] else {
        // One of the process, and one of what was merged.
        return assert_eq!(reading.processes.len(), 2);
    };
    assert_eq!(profile.kinds[&Kind::Value].seen, all);
}

#[test]
fn a_merged_file_takes_the_place_of_its_parts_at_once() {
    let scratch = Scratch::new();
    let database = scratch.database();
    for n in 0..8 {
        write(&database, HOST, "/bin/app", 1, n * 1000, 1 << n);
    }
    let parts: Vec<(PathBuf, Vec<u8>)> = (epochs(&scratch.0).into_iter())
        .map(|path| (path.clone(), fs::read(path).expect("file")))
        .collect();
    let kept = database.keep(HOST, 2000, LATER).expect("kept");
    assert_eq!((kept.files, kept.merged), (1, 8));
    let merged = epochs(&scratch.0).pop_first().expect("one");
    assert_eq!(seen(&read(&database)), 255);
    // As if it had been killed before it removed them; or parts had been copied there once more.
    for (path, bytes) in &parts {
        fs::write(path, bytes).expect("file");
    }
    assert_eq!(seen(&read(&database)), 255);
    // A merged file that is damaged leaves its parts to count.
    let whole = fs::read(&merged).expect("file");
    let mut damaged = whole.clone();
    let last = damaged.len() - 9;
    damaged[last] ^= 1;
    fs::write(&merged, &damaged).expect("file");
    let reading = read(&database);
    assert_eq!((seen(&reading), reading.skipped.len()), (255, 1));
    let kept = database.keep(HOST, 1 << 30, LATER).expect("kept");
    assert_eq!(kept.files, 9, "nothing is removed for it");
    fs::write(&merged, &whole).expect("file");
    let kept = database.keep(HOST, 1 << 30, LATER).expect("kept");
    assert_eq!(kept.files, 1);
    assert_eq!(seen(&read(&database)), 255);
}

#[test]
fn directories_of_several_machines_can_be_copied_together() {
    let (one, two) = (Scratch::new(), Scratch::new());
    let (a, b) = (one.database(), two.database());
    for n in 0..6 {
        write(&a, "a", "/bin/app", 1, n * 1000, 1 << n);
        write(&b, "b", "/bin/app", 1, n * 1000, 64 << n);
    }
    let copy = || {
        for path in files(&two.0) {
            let to = one.0.join(path.strip_prefix(&two.0).expect("below"));
            fs::create_dir_all(to.parent().expect("parent")).expect("dir");
            fs::copy(path, to).expect("copied");
        }
    };
    copy();
    assert_eq!(seen(&read(&a)), (1 << 12) - 1);
    // Copied again after it was merged: parts and sum are there.
    let kept = b.keep("b", 1100, LATER).expect("kept");
    assert_eq!((kept.files, kept.dropped), (1, 0));
    copy();
    let reading = read(&a);
    assert_eq!((seen(&reading), reading.hosts.len()), ((1 << 12) - 1, 2));
}

#[test]
fn one_keeps_at_a_time() {
    let scratch = Scratch::new();
    let database = scratch.database();
    for n in 0..9 {
        write(&database, HOST, "/bin/app", 1, n * 1000, 1);
    }
    let lock = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(scratch.0.join("lock.here"));
    let lock = lock.expect("lock");
    lock.lock().expect("locked");
    assert_eq!(database.keep(HOST, 1, LATER).expect("kept").files, 0);
    assert_eq!(epochs(&scratch.0).len(), 9);
    drop(lock);
    assert_eq!(database.keep(HOST, 2000, LATER).expect("kept").merged, 9);
}

#[test]
fn readers_see_each_epoch_once_while_others_write_and_merge() {
    const EPOCHS: u64 = 60;
    let scratch = Scratch::new();
    let database = scratch.database();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..EPOCHS {
                write(&database, HOST, "/bin/app", 1, n * 1000, 1 << n);
            }
            over.store(true, Ordering::SeqCst);
        });
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                database.keep(HOST, 3500, LATER).expect("kept");
            }
        });
        let mut last = 0;
        while !over.load(Ordering::SeqCst) {
            let reading = read(&database);
            assert!(reading.skipped.is_empty(), "{:?}", reading.skipped);
            let (seen, dropped) = (seen(&reading), !reading.dropped.is_empty());
            // All epochs up to some one: ones without a gap, none of them twice.
            assert!(dropped || (seen + 1).is_power_of_two(), "{seen:b}");
            assert!(dropped || seen >= last);
            last = seen;
        }
    });
    let reading = read(&database);
    assert!(!reading.dropped.is_empty() || seen(&reading) == (1 << EPOCHS) - 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Tests that each damaged file is reported, and that the others count.
    #[test]
    fn damage_costs_the_file_that_it_is_in(
        damages in prop::collection::btree_map(0_usize..6, (any::<prop::sample::Index>(), 0_u8..3, 1_u8..), 1..4),
        merged in any::<bool>(),
    ) {
        let scratch = Scratch::new();
        let database = scratch.database();
        for n in 0..6 {
            let program = format!("/bin/app{n}");
            write(&database, HOST, &program, 1, n * 1000, 1 << (2 * n));
            write(&database, HOST, &program, 1, n * 1000 + 1, 2 << (2 * n));
        }
        if merged {
            prop_assert_eq!(database.keep(HOST, 5000, LATER).expect("kept").dropped, 0);
        }
        let per_file = |path: &Path| {
            let alone = Scratch::new();
            let database = alone.database();
            let to = alone.0.join("group").join(path.file_name().expect("a name"));
            fs::create_dir_all(alone.0.join("group")).expect("dir");
            fs::copy(path, to).expect("copied");
            seen(&read(&database))
        };
        let all: Vec<PathBuf> = epochs(&scratch.0).into_iter().collect();
        let mut left = seen(&read(&database));
        prop_assert_eq!(left, (1 << 12) - 1);
        let mut hurt = 0;
        for (n, (at, how, bits)) in damages {
            let Some(path) = all.get(n) else { continue };
            let counted = per_file(path);
            let mut bytes = fs::read(path).expect("file");
            let at = at.index(bytes.len());
            match how {
                0 => bytes.truncate(at),
                1 => bytes[at] ^= bits,
                _ => bytes.insert(at, bits),
            }
            fs::write(path, &bytes).expect("file");
            left -= counted;
            hurt += 1;
        }
        let reading = read(&database);
        prop_assert_eq!(seen(&reading), left);
        prop_assert_eq!(reading.skipped.len(), hurt);
        for error in &reading.skipped {
            prop_assert!(error.to_string().contains(".epoch: "), "{error}");
        }
    }

    /// Tests a merge that is killed between any two of its steps: files that it has merged may still be there.
    #[test]
    fn parts_that_were_not_removed_do_not_count(
        parts in 2_u64..12,
        most in 1300_u64..2500,
        left in any::<prop::sample::Index>(),
        half in any::<prop::sample::Index>(),
    ) {
        let scratch = Scratch::new();
        let database = scratch.database();
        for n in 0..parts {
            write(&database, HOST, "/bin/app", 1, MINUTE + n, 1 << n);
        }
        let all = (1_u64 << parts) - 1;
        let before: Vec<(PathBuf, Vec<u8>)> = (epochs(&scratch.0).into_iter())
            .map(|path| (path.clone(), fs::read(path).expect("file")))
            .collect();
        let kept = database.keep(HOST, most, LATER).expect("kept");
        prop_assert_eq!((kept.dropped, seen(&read(&database))), (0, all));
        for (path, bytes) in &before[left.index(before.len())..] {
            fs::write(path, bytes).expect("file");
        }
        // And the next was being written.
        let (path, bytes) = &before[0];
        let mut name = std::ffi::OsString::from(".new.1.");
        name.push(path.file_name().expect("a name"));
        fs::write(path.with_file_name(name), &bytes[..half.index(bytes.len())]).expect("file");
        prop_assert_eq!(seen(&read(&database)), all);
        let again = database.keep(HOST, most, LATER).expect("kept");
        prop_assert_eq!((again.dropped, seen(&read(&database))), (0, all));
        prop_assert_eq!((kept.merged > 0, again.files), (kept.files == 1, kept.files));
    }
}

/// Variable with the directory in which [`worker`] is to work.
const WORKER: &str = "TROMMEL_DATABASE_WORKER";

/// Writes epochs and merges them until it is killed, in a process of its own; says what it has written.
#[test]
fn worker() {
    let Some(directory) = std::env::var_os(WORKER) else {
        return;
    };
    let database = Database::at(Path::new(&directory));
    for n in 0..60 {
        write(&database, HOST, "/bin/app", 1, n * 7000, 1 << n);
        eprintln!("wrote {n}");
        database.keep(HOST, 3000, LATER).expect("kept");
    }
    std::thread::sleep(std::time::Duration::from_secs(100));
}

#[test]
fn who_is_killed_loses_nothing_that_was_written() {
    let mut reached = BTreeSet::new();
    let mut merged = 0;
    for round in 0..40 {
        let scratch = Scratch::new();
        let database = scratch.database();
        let mut worker = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "worker", "--nocapture"])
            .env(WORKER, &scratch.0)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("runs");
        let mut said = std::io::BufReader::new(worker.stderr.take().expect("a pipe"));
        let mut line = String::new();
        // At moments of its work, not of its start.
        while !line.contains("wrote") {
            line.clear();
            assert_ne!(said.read_line(&mut line).expect("text"), 0, "it has ended");
        }
        std::thread::sleep(std::time::Duration::from_micros(round * 1237 % 40_000));
        worker.kill().expect("killed");
        worker.wait().expect("waited for");
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("text");
        let last = (line + &rest).matches("wrote").count() as u32;
        let reading = read(&database);
        let seen = seen(&reading);
        assert!(reading.skipped.is_empty(), "{:?}", reading.skipped);
        if reading.dropped.is_empty() {
            let counted = seen.count_ones();
            assert!((seen + 1).is_power_of_two(), "{seen:b}");
            assert!((last..=last + 1).contains(&counted), "{last} {seen:b}");
        }
        merged += u32::from(epochs(&scratch.0).len() < last as usize);
        reached.insert(last);
        let kept = database.keep(HOST, 1 << 30, LATER).expect("kept");
        assert_eq!(kept.dropped, 0);
        assert_eq!(self::seen(&read(&database)), seen);
    }
    assert!(reached.len() > 5 && merged > 5, "{reached:?} {merged}");
}
