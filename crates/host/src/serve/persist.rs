//! Fragments of earlier runs: kept in files of the user's, for programs that start again.
//!
//! # Problem
//! A program that starts makes thousands of fragments, the same each time (`trommel_queue::persist`). What is kept is code
//! that will be executed, so who can write it can run what they like as the user.
//!
//! # Strategy
//! One file for each program file, build of the runtime and way of translating, in a directory that only the user can
//! write to. A new one takes the place of the old at once. A process maps it before the program starts; when
//! the process has ended and has made a good deal that was not in it, or many have made a little, both are put together.
//!
//! When the files take more than [`MOST`] bytes, those that were not used for longest go.
//!
//! # Invariants
//! * What was made is read out of the slot once, and then checked: whatever a program has written there, a file is well
//!   formed, or is not written.
//! * Nothing is kept of processes with other rights than ours (user, group, capabilities, namespaces, root directory): what they
//!   can do to their slot must not reach one that may do more.
//! * Every failure has one consequence: fragments are made anew.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::SystemTime;

use nix::unistd::{Pid, geteuid};
use trommel_queue::persist::{
    HEADER, Head, Image, MADE_RECORDS, MAX_MODULES, MODULE_BYTES, Made, Module, PERSIST_BYTES,
    digest, enter, entries_for,
};
use trommel_queue::{MADE_OFFSET, options};
use trommel_tuple::{Kind, KindSet};

use crate::channel::image;
use crate::channel::shared::Shared;
use crate::channel::terms::Prefetching;
use crate::channel::terms::{TargetCounts, Terms};
use crate::ptrace::inject::Kept;

/// Bytes of all files.
const MOST: u64 = 256 << 20;
/// Part of the kept bytes, one in so many, that the bytes made since must exceed to be kept.
const WORTH: u64 = 4;
const SUFFIX: &str = "fragments";
/// Suffix of a file beside it, with the number of bytes that runs have made and that were not kept.
const MISSED: &str = "missed";

/// Directory in which fragments are kept.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
}

/// Kept fragments of a process.
#[derive(Debug)]
pub struct Keeping {
    path: PathBuf,
    /// Image that was kept so far, if anything was.
    image: Option<File>,
}

impl Keeping {
    /// The file of what was kept, as a process that executed a program is to open it.
    pub(crate) fn kept(&self) -> Option<Kept> {
        let data = self.image.as_ref()?.metadata().ok()?;
        Some(Kept {
            path: CString::new(self.path.as_os_str().as_bytes()).ok()?,
            is: (data.dev(), data.ino()),
        })
    }

    /// Returns true if what was kept can be used by runtimes with this build and shape.
    fn is_of(&self, key: [u64; 2]) -> bool {
        let mut header = [0; HEADER];
        let read = (self.image.as_ref()).map(|image| image.read_exact_at(&mut header, 0));
        matches!(read, Some(Ok(()))) && Image::key(&header) == Some(key)
    }

    /// Bytes that were made since and not kept.
    fn missed(&self) -> u64 {
        let path = self.path.with_extension(MISSED);
        let number = fs::read_to_string(path)
            .ok()
            .and_then(|text| text.parse().ok());
        number.unwrap_or(0)
    }

    fn set_missed(&self, bytes: u64) {
        let path = self.path.with_extension(MISSED);
        // What is lost is when it is kept.
        let _ = match bytes {
            0 => fs::remove_file(path),
            _ => OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(path)
                .and_then(|mut file| file.write_all(bytes.to_string().as_bytes())),
        };
    }

    /// The same, open.
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.image.as_ref().map(File::as_fd)
    }
}

impl Store {
    /// A directory, made if need be. `None` where others could write to it.
    pub fn open(directory: &Path) -> Option<Self> {
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        let there = fs::symlink_metadata(directory).ok()?;
        let is_ours = there.is_dir() && is_ours(&there);
        (made.is_ok() && is_ours).then(|| Self {
            directory: directory.to_owned(),
        })
    }

    /// Returns the fragments kept of a program file, for a process that is about to execute it. `None` where nothing is to be kept of
    /// it.
    pub(crate) fn of(&self, terms: &Terms, program: &Path) -> Option<Keeping> {
        let shape = shape(terms)?;
        let program = fs::metadata(program).ok()?;
        let words = [program.dev(), program.ino(), image::build(), shape];
        let name = words.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, word| {
            (hash ^ word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        });
        let path = self.directory.join(format!("{name:016x}.{SUFFIX}"));
        let image = open(&path);
        Some(Keeping { path, image })
    }

    /// Keeps what a process has made that has ended.
    pub(crate) fn keep(&self, keeping: &Keeping, shared: &Shared) {
        if let Some(image) = merged(keeping, shared)
            && write(&keeping.path, &image).is_ok()
        {
            self.trim();
        }
    }

    /// Takes files away until the rest is not too large.
    fn trim(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        let ours = |path: &Path| path.extension().is_some_and(|e| e == SUFFIX);
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter(|entry| ours(&entry.path()))
            .filter_map(|entry| {
                let data = entry.metadata().ok()?;
                Some((data.modified().ok()?, data.len(), entry.path()))
            })
            .collect();
        files.sort();
        let mut all: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in files {
            if all <= MOST {
                break;
            }
            all -= len;
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(path.with_extension(MISSED));
        }
    }
}

/// Returns true if nobody else can write to it.
fn is_ours(data: &fs::Metadata) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    data.uid() == geteuid().as_raw() && data.mode() & OTHERS_WRITE == 0
}

/// Returns the rights of a process as the kernel reports them, as far as they may differ.
fn rights(who: &str) -> Option<Vec<String>> {
    const SAID: [&str; 7] = [
        "Uid:",
        "Gid:",
        "CapPrm:",
        "CapEff:",
        "CapBnd:",
        "NoNewPrivs:",
        "Seccomp:",
    ];
    let status = fs::read_to_string(format!("/proc/{who}/status")).ok()?;
    let said = |line: &&str| SAID.iter().any(|name| line.starts_with(name));
    let mut rights: Vec<String> = status.lines().filter(said).map(str::to_owned).collect();
    for link in ["root", "ns/user", "ns/mnt", "ns/pid"] {
        let to = fs::read_link(format!("/proc/{who}/{link}")).ok()?;
        rights.push(to.to_string_lossy().into_owned());
    }
    Some(rights)
}

/// Returns true if a process may do what we may, and no more. Asked before it executes anything of its program.
pub(crate) fn is_like_us(pid: Pid) -> bool {
    static OURS: OnceLock<Option<Vec<String>>> = OnceLock::new();
    let ours = OURS.get_or_init(|| rights("self"));
    ours.is_some() && rights(&pid.to_string()) == *ours
}

/// Returns a hash of all in a run that makes fragments differ. `None` where they are not kept: they record something, or count it in
/// another way than by paths or a sampler's counters, or the runtime is made to fail.
fn shape(terms: &Terms) -> Option<u64> {
    const FAILING: u64 = options::END_MASK | !0 << options::END_SHIFT;
    let counted = KindSet::from_iter([Kind::Edge, Kind::Call, Kind::Value, Kind::Type]);
    let counts = match terms.counts {
        TargetCounts::Nothing => terms.kinds.is_empty(),
        TargetCounts::Paths => terms.kinds.is_within(counted),
        TargetCounts::Intervals(_) => false,
        TargetCounts::Strata(_) => !terms.kinds.is_empty() && terms.kinds.is_within(counted),
    };
    // Of the sampler code has only how many events a message stands for, and how many counters there are; the rest is found out anew.
    let sampler = match terms.counts {
        TargetCounts::Strata(strata) => {
            u64::from(strata.rate) << 8 | u64::from(strata.substreams.ilog2())
        }
        _ => 0,
    };
    let plain = counts
        && !terms.listed
        && terms.contexts == 0
        && terms.window == 0
        && terms.question.is_none()
        && !terms.selects
        && terms.converge.is_none()
        && terms.prefetch == Prefetching::Nothing
        && terms.options & FAILING == 0;
    let word = |bit: bool, at: u32| u64::from(bit) << at;
    plain.then(|| {
        terms.options & (options::INSNS_MASK | options::TRACE)
            | word(terms.tracing.threshold != 0, 20)
            | word(terms.tracing.audits(), 21)
            | word(terms.counts == TargetCounts::Paths, 22)
            | u64::from(terms.kinds.bits()) << 32
            | sampler << 40
    })
}

/// A file that is ours.
fn open(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path).ok()?;
    let data = file.metadata().ok()?;
    if !data.is_file() || !is_ours(&data) || data.len() > PERSIST_BYTES as u64 {
        return None;
    }
    // Files that are used go last.
    let _ = file.set_modified(SystemTime::now());
    Some(file)
}

/// Puts a new file in place of the old.
fn write(file: &Path, image: &[u8]) -> io::Result<()> {
    let new = file.with_extension(format!("{}.new", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let written = options
        .open(&new)
        .and_then(|mut to: File| to.write_all(image))
        .and_then(|()| fs::rename(&new, file));
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// A record without its module's number.
struct Record<'a> {
    module: u32,
    at: u32,
    rest: &'a [u8],
}

impl<'a> Record<'a> {
    /// Returns the fragments in a row, up to the first that is not whole.
    fn all(bytes: &'a [u8]) -> Vec<Self> {
        let mut records = Vec::new();
        let mut at = 0;
        while let Some((head, rest)) = Head::read(bytes, at) {
            if digest(head.module, head.at, rest) != head.digest {
                break;
            }
            records.push(Self {
                module: head.module,
                at: head.at,
                rest,
            });
            at += head.len as usize;
        }
        records
    }
}

/// Returns the fragments that a process was given and has made, as one image. `None` where that is not worth a new file.
fn merged(keeping: &Keeping, shared: &Shared) -> Option<Vec<u8>> {
    let pages = shared.pages();
    let made: &Made = shared.made();
    let modules = made.modules.load(Acquire) as usize;
    let bytes = made.bytes.load(Acquire) as usize;
    let new_fits = modules <= MAX_MODULES && bytes <= PERSIST_BYTES - MADE_RECORDS;
    if bytes == 0 || !new_fits {
        return None;
    }
    let key = [
        image::build(),
        shared.control().process.persist_shape.load(Relaxed).into(),
    ];
    let there = keeping
        .image
        .as_ref()
        .and_then(|image| image.metadata().ok());
    if let Some(there) = there.filter(|_| keeping.is_of(key)) {
        let (new, old) = (bytes as u64, there.len());
        // Where there is no room for both, the old one is not given up for little.
        let fits = new + old <= PERSIST_BYTES as u64;
        let missed = if fits { keeping.missed() } else { 0 };
        if new + missed <= old / WORTH {
            keeping.set_missed(new + missed);
            return None;
        }
        keeping.set_missed(0);
    }
    let mut kept = Vec::new();
    if let Some(mut image) = keeping.image.as_ref() {
        image.read_to_end(&mut kept).ok()?;
    }
    let image = Image::read(&kept, key);
    let there = image.and_then(|image| image.modules().collect::<Option<Vec<_>>>());
    let image = image.filter(|_| there.is_some());
    let mut all = there.unwrap_or_default();
    let old = image.map_or(&[][..], |image| image.records());
    let mut new = vec![0; MADE_RECORDS - size_of::<Made>() + bytes];
    pages.read(MADE_OFFSET + size_of::<Made>(), &mut new).ok()?;
    for module in new.chunks_exact(MODULE_BYTES).take(modules) {
        all.push(Module::read(module)?);
    }
    let new = Record::all(&new[MADE_RECORDS - size_of::<Made>()..]);
    together(key, &all, &Record::all(old), &new)
}

/// The image of these records. What was made of a file that is another by now, or is made anew, is left out. If there is
/// too much, so are the new ones that were made last: those of a start are kept. Where the new ones alone are more than half of what may
/// be kept, the old ones have served little, and are left out. `None` where nothing new is kept.
fn together(
    key: [u64; 2],
    modules: &[Module],
    old: &[Record<'_>],
    new: &[Record<'_>],
) -> Option<Vec<u8>> {
    let replaced = |n: usize| {
        let later = &modules[n + 1..];
        later.iter().any(|m| m.path() == modules[n].path())
    };
    // Numbers of those that stay.
    let mut stay: Vec<Module> = Vec::new();
    let numbers: Vec<Option<u32>> = (0..modules.len())
        .map(|n| {
            (!replaced(n) && stay.len() < MAX_MODULES).then(|| {
                stay.push(modules[n]);
                stay.len() as u32 - 1
            })
        })
        .collect();
    let number = |r: &Record<'_>| numbers.get(r.module as usize).copied().flatten();
    let again: HashSet<(u32, u32)> = new.iter().map(|r| (r.module, r.at)).collect();
    let still = |r: &&Record<'_>| !again.contains(&(r.module, r.at));
    let size = |records: &[&Record<'_>]| {
        let bytes: usize = records.iter().map(|r| Head::BYTES + r.rest.len()).sum();
        let front = HEADER + stay.len() * MODULE_BYTES + 4 * entries_for(records.len()) + 8;
        front + bytes
    };
    let mut records: Vec<&Record<'_>> = old.iter().filter(still).chain(new).collect();
    records.retain(|r| number(r).is_some());
    // Of two of one place the later is the better.
    let mut seen = HashSet::new();
    records.reverse();
    records.retain(|r| seen.insert((r.module, r.at)));
    records.reverse();
    let is_new = |r: &&Record<'_>| again.contains(&(r.module, r.at));
    let bytes_of_new: usize = records
        .iter()
        .filter(|r| is_new(r))
        .map(|r| r.rest.len())
        .sum();
    if size(&records) > PERSIST_BYTES && bytes_of_new > PERSIST_BYTES / 2 {
        records.retain(is_new);
    }
    let fits = |number: usize| size(&records[..number]) <= PERSIST_BYTES;
    let (mut fit, mut too_many) = (0, records.len() + 1);
    while too_many - fit > 1 {
        let half = fit.midpoint(too_many);
        match fits(half) {
            true => fit = half,
            false => too_many = half,
        }
    }
    records.truncate(fit);
    if !records.last().is_some_and(is_new) {
        return None;
    }
    let mut table = vec![0; entries_for(records.len())];
    let start = HEADER + stay.len() * MODULE_BYTES + 4 * table.len();
    let first = start.next_multiple_of(8);
    let mut body = Vec::new();
    for record in records {
        let module = number(record)?;
        enter(&mut table, module, record.at, (first + body.len()) as u32);
        let head = Head {
            len: (Head::BYTES + record.rest.len()) as u32,
            module,
            at: record.at,
            digest: digest(module, record.at, record.rest),
        };
        body.extend(head.bytes());
        body.extend(record.rest);
    }
    let mut image = Image::header(key, stay.len(), table.len(), body.len()).to_vec();
    stay.iter().for_each(|module| image.extend(module.bytes()));
    table
        .iter()
        .for_each(|entry| image.extend(entry.to_le_bytes()));
    image.resize(first, 0);
    image.extend(body);
    Some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places of the records in an image.
    fn places(image: &[u8], key: [u64; 2]) -> Vec<u32> {
        let image = Image::read(image, key).expect("an image");
        let records = Record::all(image.records());
        records.iter().map(|record| record.at).collect()
    }

    #[test]
    fn what_is_full_keeps_what_serves_and_changes_no_more() {
        const MIB: usize = 1 << 20;
        const MOST: u32 = (PERSIST_BYTES / MIB) as u32;
        let key = [1, 2];
        let modules = [Module::new([3, 4], 5, 6, b"/a").expect("a short path")];
        let rest = vec![7; MIB - Head::BYTES];
        let record = |at| Record {
            module: 0,
            at,
            rest: &rest[..],
        };
        let records = |range: std::ops::Range<u32>| range.map(record).collect::<Vec<_>>();
        let put = |old: &[Record<'_>], new: &[Record<'_>]| together(key, &modules, old, new);
        let old = records(0..MOST / 2 + 8);
        // Both fit.
        let image = put(&old, &records(100..104)).expect("something new");
        assert_eq!(places(&image, key).len(), old.len() + 4);
        // As many of the new ones as fit, those first that were made first.
        let image = put(&old, &records(100..100 + MOST / 2)).expect("something new");
        let all = places(&image, key);
        let expected: Vec<u32> = (0..MOST / 2 + 8).chain(100..100 + MOST / 2 - 9).collect();
        assert_eq!(all, expected);
        // Then nothing.
        let full = Image::read(&image, key).expect("an image");
        let full = Record::all(full.records());
        assert_eq!(put(&full, &records(300..310)), None);
        // What is made anew takes the place of what there was.
        let again = put(&full, &records(4..6)).expect("something new");
        assert_eq!(places(&again, key).len(), all.len());
        // The old ones have served little.
        let image = put(&full, &records(300..300 + MOST / 2 + 1)).expect("something new");
        assert_eq!(places(&image, key).len() as u32, MOST / 2 + 1);
        let too_many = records(300..300 + 2 * MOST);
        let image = put(&full, &too_many).expect("something new");
        assert_eq!(places(&image, key).len() as u32, MOST - 1);
    }
}
