//! Processes, as the kernel tells of them while samples are taken: what they execute, where their code is, what samples found there.
//!
//! # Strategy
//! Records come in the order of their times. A process begins by a record of its parent's `fork`, or was there before: then it is
//! read from `/proc`. One that executes another program is another process of the recording from then on. One that ends leaves its
//! profile, if a sample found it. Mappings are only kept until a sample asks for them, since most processes live for too short a time to be
//! sampled.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Read as _;
use std::rc::Rc;
use std::time::{Duration, Instant};

use iced_x86::InstructionInfoFactory;
use rustc_hash::FxHashMap;
use trommel_profile::call_tree::{Basis, CallTree, Frame, Weight};
use trommel_profile::samples::{Function, Samples, Thread};
use trommel_profile::{Origin, Profile};
use trommel_queue::dict::TargetPc;
use trommel_symbol::unwind::Rule;
use trommel_tuple::{ModuleId, Place, Vaddr};

use super::files::Files;
use super::found::{Draws, InstructionSamples};
use super::operands::reads;
use super::stacks::{Code, Path, walk};
use crate::channel::modules::{Images, Modules};
use crate::channel::region::Region;
use crate::kernel::compiled::Compiled;
use crate::kernel::maps::{Mapping, mappings};
use crate::kernel::perf::records::{Map, Sample, Stack};
use crate::kernel::running::words_of;

/// Bytes of a command that are kept: what is after is nobody's business as often as not.
const LONGEST: u64 = 512;

/// State that all processes share.
pub(super) struct Shared {
    pub(super) images: Images,
    pub(super) files: Files,
    pub(super) infos: InstructionInfoFactory,
    /// Says whether operands are counted.
    pub(super) operands: bool,
    /// Says whether call paths are.
    pub(super) stacks: bool,
    /// The rule of code that nothing describes.
    pub(super) likely: Rc<Rule>,
}

/// Time from one look at the maps of a process to the next, at least.
const LOOK: Duration = Duration::from_millis(50);
/// Codes that are kept of one process.
const MOST_CODES: usize = 1 << 18;

/// A process.
#[derive(Default)]
pub(super) struct Process {
    pid: u32,
    parent: u32,
    name: Vec<u8>,
    /// Program and arguments, once they have been asked for; empty where there are none.
    command: Option<Vec<Vec<u8>>>,
    /// In the order in which they came.
    maps: Vec<Rc<Map>>,
    /// Number of them that are among the modules.
    applied: usize,
    modules: Option<Modules>,
    /// By a module's path, those that are in no mapping: the kernel's.
    others: HashMap<String, ModuleId>,
    found: FxHashMap<u64, InstructionSamples>,
    /// Time in the kernel, by where the program entered it.
    entered: FxHashMap<u64, Draws>,
    threads: FxHashMap<u32, (Vec<u8>, Draws)>,
    paths: CallTree,
    waits: CallTree,
    /// By address, and whether a call has returned there.
    codes: FxHashMap<(u64, bool), Rc<Code>>,
    looked: Option<Instant>,
    /// Names of code that it has made, once a sample was in such code.
    compiled: Option<Compiled>,
}

impl Process {
    /// A child, before it does anything else.
    pub(super) fn forked(&self, pid: u32) -> Self {
        Self {
            pid,
            parent: self.pid,
            name: self.name.clone(),
            command: self.command.clone(),
            maps: self.maps.clone(),
            ..Self::default()
        }
    }

    /// One whose beginning was not seen, as `/proc` has it.
    pub(super) fn found_running(pid: u32) -> Self {
        let mut process = Self {
            pid,
            ..Self::default()
        };
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}"));
        if let Ok(mut name) = read("comm") {
            name.truncate(name.trim_ascii_end().len());
            process.name = name;
        }
        if let Ok(maps) = read("maps") {
            process.maps = code_of(pid, &maps).map(Rc::new).collect();
        }
        process.parent = fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| parent_in(&stat))
            .unwrap_or(0);
        process
    }

    /// It executes another program; what it was.
    pub(super) fn executes(&mut self, name: Vec<u8>) -> Self {
        let now = Self {
            pid: self.pid,
            parent: self.parent,
            name,
            ..Self::default()
        };
        std::mem::replace(self, now)
    }

    /// A thread has a name.
    pub(super) fn named(&mut self, tid: u32, name: Vec<u8>) {
        if let Some((known, _)) = self.threads.get_mut(&tid) {
            known.clone_from(&name);
        }
        if tid == self.pid {
            self.name = name;
        }
    }

    /// It has code there.
    pub(super) fn maps(&mut self, map: Map) {
        // Programs that make code change what may be done with the same pages again and again.
        let covers =
            |old: &Map| map.range.start <= old.range.start && old.range.end <= map.range.end;
        let mut number = 0;
        let (applied, mut gone) = (self.applied, 0);
        self.maps.retain(|old| {
            let stays = !covers(old);
            gone += usize::from(!stays && number < applied);
            number += 1;
            stays
        });
        self.applied -= gone;
        self.maps.push(Rc::new(map));
        self.codes.clear();
    }

    /// Looks for code that no record told of, such as memory that was made executable later. Returns true if there may be some.
    fn look_again(&mut self) -> bool {
        if self.pid == 0 || self.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return false;
        }
        self.looked = Some(Instant::now());
        let Ok(maps) = fs::read(format!("/proc/{}/maps", self.pid)) else {
            return false;
        };
        for map in code_of(self.pid, &maps) {
            let same = |old: &Rc<Map>| {
                (&old.range, old.offset, old.inode) == (&map.range, map.offset, map.inode)
            };
            if !self.maps.iter().any(same) {
                self.maps(map);
            }
        }
        true
    }

    /// The newest mapping that has an address.
    fn map_of(&self, at: u64) -> Option<Rc<Map>> {
        let found = self.maps.iter().rev().find(|map| map.range.contains(&at));
        found.cloned()
    }

    /// Returns what is known of the code at an address, or of that to which a call has returned.
    fn code(&mut self, at: u64, returned: bool, shared: &mut Shared) -> Rc<Code> {
        if let Some(known) = self.codes.get(&(at, returned)) {
            return known.clone();
        }
        let within = at.wrapping_sub(returned.into());
        let mut map = self.map_of(within);
        if map.is_none() && self.look_again() {
            map = self.map_of(within);
        }
        let code = Rc::new(self.code_in(map.as_deref(), at, returned, shared));
        if self.codes.len() >= MOST_CODES {
            self.codes.clear();
        }
        self.codes.insert((at, returned), code.clone());
        code
    }

    fn code_in(&mut self, map: Option<&Map>, at: u64, returned: bool, shared: &mut Shared) -> Code {
        let (mut distance, mut may_return_here) = (u64::from(returned), true);
        let mut rule = map.map(|_| shared.likely.clone());
        let opened = map.and_then(|map| shared.files.open(map));
        if let (Some(map), Some(opened)) = (map, opened) {
            let offset = (at - map.range.start).wrapping_add(map.offset);
            let vaddr = match &opened.image {
                Some(image) => image.code_vaddr_of_offset(map.offset).map(|v| v.0),
                None => Some(map.offset),
            };
            if let Some(vaddr) = vaddr {
                let vaddr = vaddr.wrapping_add(at - map.range.start);
                rule = opened.rule(vaddr, offset, returned).or(rule);
                // A handler returns to the first instruction of the trampoline, which nothing calls.
                let is_trampoline = rule.as_deref().is_some_and(Rule::interrupts);
                if is_trampoline {
                    distance = 0;
                } else if returned {
                    let call = opened.call_before(vaddr, offset);
                    may_return_here = call.is_some();
                    distance = call.unwrap_or(1);
                }
            }
        }
        let at = self
            .modules(shared)
            .place(TargetPc(at.wrapping_sub(distance)));
        self.met(at);
        Code {
            at,
            rule,
            may_return_here,
        }
    }

    /// The path of a sample: its frames in the kernel, of which nobody but its caller knows, and the program's.
    fn path(&mut self, sample: &Sample, kernel: Vec<Place>, weight: f64, shared: &mut Shared) {
        let path = self.followed(sample, kernel, shared);
        let weight = Weight {
            times: 1,
            own: weight as u64,
        };
        add(&mut self.paths, &path, weight);
    }

    /// The path on which a thread of a program stops; `None`: a thread of the kernel's.
    pub(super) fn stops(&mut self, sample: &Sample, shared: &mut Shared) -> Option<Path> {
        sample.user?;
        self.asked();
        Some(self.followed(sample, Vec::new(), shared))
    }

    /// The path of a thread that was found waiting.
    pub(super) fn found_waiting(&mut self, stack: &Stack, shared: &mut Shared) -> Path {
        self.asked();
        walk(stack, |at, returned| self.code(at, returned, shared))
    }

    /// A thread has waited at the end of a path, or goes on to. `basis`: of waits, or of samples of them.
    pub(super) fn waited(&mut self, path: &Path, weight: Weight, basis: Basis) {
        self.waits.basis = basis;
        if weight.times == 0 {
            // What is not whole was told before.
            let lost = self.waits.lost;
            add(&mut self.waits, path, weight);
            self.waits.lost = lost;
            return;
        }
        add(&mut self.waits, path, weight);
    }

    fn followed(&mut self, sample: &Sample, kernel: Vec<Place>, shared: &mut Shared) -> Path {
        let mut path = match &sample.stack {
            Some(stack) => walk(stack, |at, returned| self.code(at, returned, shared)),
            // The kernel's own threads.
            None if sample.user.is_none() && !kernel.is_empty() => Path::default(),
            // Code of 32 bits.
            None => {
                let at = self
                    .code(sample.user.unwrap_or(sample.pc), false, shared)
                    .at;
                let frames = vec![at];
                Path {
                    frames,
                    ..Path::default()
                }
                .broken()
            }
        };
        path.frames.splice(0..0, kernel);
        path
    }

    /// The name of its first thread.
    #[cfg(test)]
    pub(super) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its number.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    fn modules(&mut self, shared: &mut Shared) -> &mut Modules {
        let modules = self
            .modules
            .get_or_insert_with(|| Modules::new(shared.images.clone()));
        for map in &self.maps[self.applied..] {
            if map.inode != 0 && map.path != b"[vdso]" {
                let opened = shared.files.open(map);
                let code = opened.as_ref().and_then(|opened| opened.code());
                let image = opened.and_then(|opened| opened.image.clone());
                shared.images.know(&map.path, map.inode, image, code);
            }
            modules.add(&Region {
                range: map.range.clone(),
                offset: map.offset,
                inode: map.inode,
                path: map.path.clone(),
                paths: 0,
            });
        }
        self.applied = self.maps.len();
        modules
    }

    /// A sample of a program's code, which stands for so much time; whether its instruction could be read, and
    /// whether it is known what is there.
    pub(super) fn in_program(
        &mut self,
        sample: &Sample,
        weight: f64,
        shared: &mut Shared,
    ) -> (bool, bool) {
        self.asked();
        self.thread(sample, weight);
        let pc = sample.pc;
        if shared.stacks {
            self.path(sample, Vec::new(), weight, shared);
        }
        let place = self.modules(shared).place(TargetPc(pc)).word();
        self.met(Place::from_word(place));
        let Self { found, maps, .. } = self;
        let map = || maps.iter().rev().find(|map| map.range.contains(&pc));
        let is_known = place >> 48 != 0 || map().is_some();
        let found = found.entry(place).or_insert_with(|| {
            let map = map().filter(|_| shared.operands);
            let bytes = map.and_then(|map| shared.files.instruction(map, pc));
            let reads = bytes.and_then(|bytes| reads(&bytes, &mut shared.infos));
            InstructionSamples::of(reads)
        });
        found.add(weight, sample.registers.as_ref());
        (found.is_decoded(), is_known)
    }

    /// A sample of the kernel's. `frames`: it and its callers in the kernel, each at a distance from the first address of a module of its.
    /// `bytes`: those of its instruction.
    pub(super) fn in_kernel(
        &mut self,
        sample: &Sample,
        weight: f64,
        frames: &[(&str, u64)],
        bytes: impl FnOnce() -> Option<Vec<u8>>,
        shared: &mut Shared,
    ) -> bool {
        self.asked();
        self.thread(sample, weight);
        if let Some(user) = sample.user {
            let from = self.modules(shared).place(TargetPc(user)).word();
            self.entered.entry(from).or_default().add(weight);
        }
        let frames: Vec<Place> = (frames.iter())
            .map(|(module, vaddr)| self.kernel_place(module, *vaddr, shared))
            .collect();
        let Some(place) = frames.first().map(|place| place.word()) else {
            return false;
        };
        if shared.stacks {
            self.path(sample, frames, weight, shared);
        }
        let found = self.found.entry(place).or_insert_with(|| {
            let bytes = bytes().filter(|_| shared.operands);
            InstructionSamples::of(bytes.and_then(|bytes| reads(&bytes, &mut shared.infos)))
        });
        found.add(weight, sample.registers.as_ref());
        found.is_decoded()
    }

    fn kernel_place(&mut self, module: &str, vaddr: u64, shared: &mut Shared) -> Place {
        let number = match self.others.get(module) {
            Some(number) => *number,
            None => {
                let number = self.modules(shared).unmapped(module);
                self.others.insert(module.to_owned(), number);
                number
            }
        };
        Place::new(number, Vaddr(vaddr))
    }

    /// Looks for the names of code that it has made, if it has some.
    pub(super) fn look_for_names(&mut self) {
        if let Some(compiled) = &mut self.compiled {
            compiled.look();
        }
    }

    /// A place was met: in code that it has made, names are of use.
    fn met(&mut self, place: Place) {
        if place.module() == ModuleId::ANON && self.compiled.is_none() {
            self.compiled = Some(Compiled::of(self.pid));
            self.look_for_names();
        }
    }

    /// The functions of code that it has made, as far as samples have met them.
    fn functions(&mut self) -> Vec<Function> {
        let Some(compiled) = self.compiled.take() else {
            return Vec::new();
        };
        let sampled = self.found.keys().map(|word| Place::from_word(*word));
        let nodes = self.paths.nodes().iter().chain(self.waits.nodes());
        let paths = nodes.map(|node| node.frame.at);
        let met = sampled.chain(paths);
        let met = met.filter(|place| place.module() == ModuleId::ANON);
        let met: BTreeSet<u64> = met.map(|place| place.vaddr().0).collect();
        compiled.functions(&met)
    }

    fn thread(&mut self, sample: &Sample, weight: f64) {
        let name = &self.name;
        let (_, draws) = (self.threads.entry(sample.tid)).or_insert_with(|| {
            let path = format!("/proc/{}/task/{}/comm", sample.pid, sample.tid);
            let own = fs::read(path).map(|name| name.trim_ascii_end().to_vec());
            (own.unwrap_or_else(|_| name.clone()), Draws::default())
        });
        draws.add(weight);
    }

    /// Reads what its command is, as long as it is there.
    fn asked(&mut self) {
        if self.command.is_some() {
            return;
        }
        let mut text = Vec::new();
        if let Ok(file) = fs::File::open(format!("/proc/{}/cmdline", self.pid)) {
            let _ = file.take(LONGEST).read_to_end(&mut text);
        }
        let program = fs::read_link(format!("/proc/{}/exe", self.pid)).ok();
        self.command = Some(words_of(&text, program.as_deref()));
    }

    /// Returns its profile so far, if a sample found it. Its counts begin anew.
    pub(super) fn taken(&mut self, kernel_build_id: &[u8]) -> Option<Profile> {
        if self.is_unseen() {
            return None;
        }
        // Numbers of modules, and what depends on them, belong to a profile.
        let goes_on = Self {
            parent: self.parent,
            ..self.forked(self.pid)
        };
        std::mem::replace(self, goes_on).profile(false, kernel_build_id)
    }

    /// Returns true if neither a sample nor a wait has found it.
    fn is_unseen(&self) -> bool {
        self.found.is_empty() && self.waits.nodes().is_empty()
    }

    /// Returns its profile, if a sample or a wait found it. `exec`: it goes on as another program.
    pub(super) fn profile(mut self, exec: bool, kernel_build_id: &[u8]) -> Option<Profile> {
        if self.is_unseen() {
            return None;
        }
        let compiled = self.functions();
        let mut modules = self.modules.map_or_else(Vec::new, |modules| modules.list);
        for number in self.others.values().filter(|n| **n != ModuleId::ANON) {
            modules[usize::from(number.0)].build_id = kernel_build_id.to_vec();
        }
        let command = match self.command {
            Some(command) if !command.is_empty() => command,
            // A thread of the kernel's, or one that was gone before it could be asked.
            _ => vec![[b"[", &self.name[..], b"]"].concat()],
        };
        let found = self.found.iter();
        let places = found.map(|(word, found)| (Place::from_word(*word), found.at()));
        let threads = self.threads.into_iter().map(|(tid, (name, draws))| {
            let sampled = draws.sampled();
            (tid, Thread { name, sampled })
        });
        let trees = [self.paths, self.waits].into_iter();
        let trees = trees.filter(|tree| !tree.nodes().is_empty());
        Some(Profile {
            origin: Origin {
                pid: self.pid,
                parent: self.parent,
                exec,
            },
            command,
            compressor: "samples".into(),
            modules,
            compiled,
            call_trees: trees.collect(),
            samples: Some(Samples {
                machine: None,
                places: places.collect(),
                entered: (self.entered.iter())
                    .map(|(word, draws)| (Place::from_word(*word), draws.sampled()))
                    .collect(),
                threads: threads.collect(),
            }),
            ..Profile::default()
        })
    }
}

/// Adds a path to a tree, and what it lacks.
fn add(tree: &mut CallTree, path: &Path, weight: Weight) {
    let frames = path.frames.iter().rev().map(|at| Frame {
        at: *at,
        call: None,
    });
    if !tree.add_stack(frames, weight) {
        tree.lost.folded += 1;
    }
    tree.lost.add(path.lost);
}

/// Mappings with code, of what `/proc/PID/maps` says.
fn code_of(pid: u32, maps: &[u8]) -> impl Iterator<Item = Map> {
    const DELETED: &[u8] = b" (deleted)";
    let code = mappings(maps).filter(Mapping::is_executable);
    code.map(move |mapping| Map {
        pid,
        range: mapping.range,
        offset: mapping.offset,
        inode: mapping.inode,
        path: mapping
            .path
            .strip_suffix(DELETED)
            .unwrap_or(mapping.path)
            .to_vec(),
    })
}

/// The parent in `/proc/PID/stat`, after a name in brackets that may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::perf::records::Mode;
    use proptest::prelude::*;

    #[test]
    fn mappings_with_code_are_read() {
        let maps = b"00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b (deleted)\n\
            00651000-00652000 r--p 00051000 08:02 173521      /usr/bin/a b\n\
            7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0          [vdso]\n\
            7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n";
        let all: Vec<Map> = code_of(7, maps).collect();
        assert_eq!(all.len(), 3);
        assert_eq!(
            (all[0].range.clone(), all[0].offset),
            (0x40_0000..0x45_2000, 0x1000)
        );
        assert_eq!(
            (all[0].inode, &all[0].path[..]),
            (173_521, &b"/usr/bin/a b"[..])
        );
        assert_eq!(
            (&all[1].path[..], &all[2].path[..]),
            (&b"[vdso]"[..], &b""[..])
        );
        assert_eq!(parent_in("12 (a) b) S 34 1 1"), Some(34));
    }

    fn shared() -> Shared {
        Shared {
            images: Images::default(),
            files: Files::new(),
            infos: InstructionInfoFactory::new(),
            operands: true,
            stacks: false,
            likely: Rc::new(Rule::frame_pointer()),
        }
    }

    fn sample(mode: Mode, pc: u64, rbx: u64) -> Sample {
        let mut registers = [0; 16];
        registers[3] = rbx;
        Sample {
            mode,
            pc,
            pid: 7,
            tid: 7,
            time: 0,
            cpu: 0,
            user: None,
            registers: Some(registers),
            kernel: Vec::new(),
            stack: None,
        }
    }

    #[test]
    fn operands_of_the_kernel_are_told_where_its_code_is_there() {
        let mut process = Process::default();
        // mov eax,[rbx+8]
        let bytes = || Some(vec![0x8b, 0x43, 0x08]);
        for n in 0..10 {
            let here = sample(Mode::Kernel, 0xffff_ffff_8100_0040, 0x1000 + n % 2);
            let decoded =
                process.in_kernel(&here, 1e6, &[("[kernel]", 0x40)], bytes, &mut shared());
            assert!(decoded);
            let other = sample(Mode::Kernel, 0xffff_ffff_8100_0080, 5);
            let none = || None;
            let decoded =
                process.in_kernel(&other, 1e6, &[("[kernel]", 0x80)], none, &mut shared());
            assert!(!decoded);
        }
        let profile = process.profile(false, b"id").expect("found");
        assert_eq!(profile.modules[1].path, b"[kernel]");
        assert_eq!(profile.modules[1].build_id, b"id");
        let samples = profile.samples.expect("samples");
        let at = |vaddr| &samples.places[&Place::new(ModuleId(1), Vaddr(vaddr))];
        let told: Vec<_> = at(0x40)
            .operands
            .iter()
            .map(|(o, h)| (o.name(), h.top()))
            .collect();
        let wanted = [
            ("rbx", vec![(0x1000, 5), (0x1001, 5)]),
            ("address", vec![(0x1008, 5), (0x1009, 5)]),
        ];
        assert_eq!(told, wanted);
        assert!(at(0x80).operands.is_empty() && at(0x80).sampled.samples == 10);
    }

    #[test]
    fn mappings_that_come_again_take_the_place_of_the_old_ones() {
        let mut process = Process::default();
        let map = |start: u64, end: u64| Map {
            pid: 7,
            range: start..end,
            offset: 0,
            inode: 0,
            path: b"//anon".to_vec(),
        };
        process.maps(map(0x1000, 0x2000));
        for n in 0..1000 {
            process.maps(map(0x4000, 0x5000 + n % 2 * 0x1000));
            if n % 3 == 0 {
                process.modules(&mut shared());
            }
            assert!(process.maps.len() <= 3 && process.applied <= process.maps.len());
        }
        let here = sample(Mode::User, 0x1800, 0);
        assert_eq!(process.in_program(&here, 1.0, &mut shared()), (false, true));
    }

    proptest! {
        #[test]
        fn any_lines_are_read(maps in prop::collection::vec(any::<u8>(), 0..300), text in any::<String>()) {
            let _ = code_of(1, &maps).count();
            let _ = parent_in(&text);
        }
    }
}
