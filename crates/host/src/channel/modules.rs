//! Run-time addresses to places.
//!
//! The runtime reports each region of code before the first fragment made from it. This module
//! finds the region's file and the `vaddr` of its bytes. Modules are numbered in the order in
//! which their code first ran. A later region replaces what it overlaps of earlier ones. Before that happens the runtime
//! waits until all records of the old code are folded.
//!
//! A path is one of the process. Where that sees other files than we do (a container), its file is found through `/proc/PID/root`, and the
//! module has that path, unless ours has the same build id: what is at the path here may be another program.
//!
//! A file may be replaced between its mapping and the look at it. Then it is opened as the process has it mapped.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::unistd::Pid;
use trommel_profile::{Loaded, Module};
use trommel_queue::dict::TargetPc;
use trommel_symbol::elf::{self, Format};
use trommel_symbol::{Frames, build_id_of, own_vdso};
use trommel_tuple::{ModuleId, Place, Vaddr};

use crate::channel::region::Region;
use crate::kernel::maps;

struct Known {
    range: std::ops::Range<u64>,
    module: ModuleId,
    /// `vaddr` of the range's start.
    vaddr: u64,
}

/// Files that were inspected once: processes of a run have most of them in common.
#[derive(Clone, Default)]
pub struct Images(Rc<Inspected>, Option<Seer>);

/// A process whose paths they are.
#[derive(Clone, Copy)]
struct Seer {
    pid: Pid,
    /// It saw other files than we do at first, in case that it is gone.
    elsewhere: bool,
}

/// A file by path and inode.
type FileKey = (Vec<u8>, u64);

#[derive(Default)]
struct Inspected {
    files: RefCell<HashMap<FileKey, Option<Rc<elf::Image>>>>,
    frames: RefCell<HashMap<FileKey, Option<Rc<Frames>>>>,
    /// Checksums of the code of files that have no build id.
    codes: RefCell<HashMap<FileKey, Option<u32>>>,
    vdso: OnceCell<Vec<u8>>,
    /// Nobody will ask which build a file was.
    without_builds: bool,
}

impl Images {
    /// The files as a process sees them.
    #[must_use]
    pub fn seen_by(&self, pid: Pid) -> Self {
        let elsewhere = is_elsewhere(pid) == Some(true);
        Self(Rc::clone(&self.0), Some(Seer { pid, elsewhere }))
    }

    /// Returns the path at which we find the file of a process's path.
    fn path(&self, path: &[u8], inode: u64) -> Vec<u8> {
        let is_other = |seer: &Seer| {
            path.starts_with(b"/") && is_elsewhere(seer.pid).unwrap_or(seer.elsewhere)
        };
        let Some(Seer { pid, .. }) = self.1.filter(is_other) else {
            // One that is gone has a path at which nothing else is taken for it.
            let there = self.there(path, inode);
            let is_gone = there.as_os_str().as_bytes().ends_with(DELETED);
            return if is_gone {
                [path, DELETED].concat()
            } else {
                path.to_vec()
            };
        };
        let theirs = [format!("/proc/{pid}/root").as_bytes(), path].concat();
        let build = |path: &[u8]| {
            let image = self.image(path, inode)?;
            let code = self.code(path, inode, &image);
            (!image.build_id.is_empty() || code.is_some()).then(|| (image.build_id.clone(), code))
        };
        match build(&theirs) {
            Some(theirs) if build(path).is_some_and(|ours| ours == theirs) => path.to_vec(),
            _ => theirs,
        }
    }

    /// Files of a run that makes no profile: the code of those without a build id need not be read.
    pub fn without_builds() -> Self {
        let inspected = Inspected {
            without_builds: true,
            ..Inspected::default()
        };
        Self(Rc::new(inspected), None)
    }

    fn image(&self, path: &[u8], inode: u64) -> Option<Rc<elf::Image>> {
        let mut files = self.0.files.borrow_mut();
        let inspect = || match elf::inspect(&self.there(path, inode)) {
            Ok(Format::Elf(image)) => Some(Rc::new(image)),
            _ => None,
        };
        (files.entry((path.to_vec(), inode)))
            .or_insert_with(inspect)
            .clone()
    }

    /// Records the image of a path and inode, and the checksum of its code, found in another way than by its path.
    pub fn know(&self, path: &[u8], inode: u64, image: Option<Rc<elf::Image>>, code: Option<u32>) {
        let key = (path.to_vec(), inode);
        self.0.codes.borrow_mut().insert(key.clone(), code);
        self.0.files.borrow_mut().insert(key, image);
    }

    /// The checksum of a file's code, if it has no build id.
    fn code(&self, path: &[u8], inode: u64, image: &elf::Image) -> Option<u32> {
        if !image.build_id.is_empty() || self.0.without_builds {
            return None;
        }
        let read = || {
            let file = File::open(self.there(path, inode)).ok()?;
            image.code_checksum(&file)
        };
        let mut codes = self.0.codes.borrow_mut();
        *codes.entry((path.to_vec(), inode)).or_insert_with(read)
    }

    fn frames(&self, path: &[u8], inode: u64, image: &elf::Image) -> Option<Rc<Frames>> {
        let mut frames = self.0.frames.borrow_mut();
        let find = || Frames::of(&self.there(path, inode), image).map(Rc::new);
        (frames.entry((path.to_vec(), inode)))
            .or_insert_with(find)
            .clone()
    }

    /// Returns the path at which a file can be opened that was at `path` when it was mapped. Another one may have taken its place since.
    fn there(&self, path: &[u8], inode: u64) -> PathBuf {
        let own = PathBuf::from(OsStr::from_bytes(path));
        let is_it = |path: &Path| std::fs::metadata(path).is_ok_and(|file| file.ino() == inode);
        // Of a process that sees other files the paths are told apart before ([`Self::path`]).
        let sees_ours = |seer: &Seer| !is_elsewhere(seer.pid).unwrap_or(seer.elsewhere);
        let replaced = self.1.filter(|_| inode != 0 && !is_it(&own));
        let Some(Seer { pid, .. }) = replaced.filter(sees_ours) else {
            return own;
        };
        // What was replaced is marked in maps. Of a process that is gone, the inode alone tells, where it is the same in maps as elsewhere.
        let range = match deleted(pid, inode) {
            Some(range) => range,
            None if has_plain_inodes(&own) => 0..0,
            None => return own,
        };
        let of_process = PathBuf::from(format!("/proc/{pid}"));
        let mapped = of_process.join(format!("map_files/{:x}-{:x}", range.start, range.end));
        let places = [mapped, of_process.join("exe")];
        let gone = || PathBuf::from(OsStr::from_bytes(&[path, DELETED].concat()));
        places.into_iter().find(|p| is_it(p)).unwrap_or_else(gone)
    }

    fn vdso_build_id(&self) -> Vec<u8> {
        let read = || own_vdso().map_or_else(Vec::new, |v| build_id_of(&v));
        self.0.vdso.get_or_init(read).clone()
    }
}

/// The end of a path in maps whose file was removed or replaced.
const DELETED: &[u8] = b" (deleted)";

/// Returns where a process has mapped a file of this inode that is at its path no more.
fn deleted(pid: Pid, inode: u64) -> Option<std::ops::Range<u64>> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let mut found = maps::mappings(&text);
    let mapping = found.find(|m| m.inode == inode && m.path.ends_with(DELETED))?;
    Some(mapping.range)
}

/// Returns true if a file has the same inode in maps as elsewhere, as that of an overlay may not have.
fn has_plain_inodes(path: &Path) -> bool {
    use nix::sys::statfs::{
        self, BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC,
    };

    let plain = [
        BTRFS_SUPER_MAGIC,
        EXT4_SUPER_MAGIC,
        TMPFS_MAGIC,
        XFS_SUPER_MAGIC,
    ];
    statfs::statfs(path).is_ok_and(|found| plain.contains(&found.filesystem_type()))
}

/// Returns true if a process sees other files than we do. `None`: it is gone.
fn is_elsewhere(pid: Pid) -> Option<bool> {
    let of = |process: &str| -> Option<_> {
        let namespace = std::fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?;
        let root = std::fs::metadata(format!("/proc/{process}/root")).ok()?;
        Some((namespace, root.dev(), root.ino()))
    };
    Some(of(&pid.to_string())? != of("self")?)
}

/// The modules of a process and where they are.
pub struct Modules {
    /// Modules by number; the first is `[anon]`.
    pub list: Vec<Module>,
    images: Vec<(Vec<u8>, u64, Option<Rc<elf::Image>>)>,
    inspected: Images,
    known: Vec<Known>,
    last: usize,
}

impl Modules {
    /// No module but `[anon]`.
    pub fn new(inspected: Images) -> Self {
        let anon = Module {
            id: ModuleId::ANON,
            path: b"[anon]".to_vec(),
            ..Module::default()
        };
        Self {
            list: vec![anon],
            images: vec![(b"[anon]".to_vec(), 0, None)],
            inspected,
            known: Vec::new(),
            last: 0,
        }
    }

    /// The modules whose code a text such as `/proc/PID/maps` lists.
    pub fn of_maps(inspected: Images, text: &[u8]) -> Self {
        let mut modules = Self::new(inspected);
        for mapping in maps::mappings(text).filter(maps::Mapping::is_executable) {
            modules.add(&Region {
                range: mapping.range,
                offset: mapping.offset,
                inode: mapping.inode,
                path: mapping.path.to_vec(),
                paths: 0,
            });
        }
        modules
    }

    /// The place of a run-time address.
    pub fn of_address(&self, address: u64) -> Place {
        self.place_at(TargetPc(address))
    }

    /// Returns whether a region takes the place of another one with other code.
    pub fn replaces(&self, region: &Region) -> bool {
        self.known.iter().any(|k| {
            k.range.start < region.range.end
                && region.range.start < k.range.end
                && !(self.images[usize::from(k.module.0)].0 == region.path
                    && k.range == region.range)
        })
    }

    /// Takes note of a region.
    pub fn add(&mut self, region: &Region) {
        self.cut(&region.range);
        let module = self.module(region);
        let vaddr = match &self.images[usize::from(module.0)].2 {
            Some(image) => image
                .code_vaddr_of_offset(region.offset)
                .map_or(region.offset, |v| v.0),
            // The vDSO is linked at 0 and mapped whole; memory without a file keeps its addresses.
            None if module == ModuleId::ANON => region.range.start,
            None => region.offset,
        };
        let number = usize::from(module.0);
        if module != ModuleId::ANON {
            let bias = region.range.start.wrapping_sub(vaddr);
            let extent = self.images[number].2.as_deref().map_or(
                vaddr..vaddr + (region.range.end - region.range.start),
                elf::Image::extent,
            );
            let (start, end) = (
                extent.start.wrapping_add(bias),
                extent.end.wrapping_add(bias),
            );
            self.list[number].loaded = Some(Loaded { start, end, bias });
        }
        self.known.push(Known {
            range: region.range.clone(),
            module,
            vaddr,
        });
        self.last = 0;
    }

    /// Forgets what is in a range. What is beside it is known still.
    fn cut(&mut self, range: &std::ops::Range<u64>) {
        let beside = |k: &Known| {
            let part = |start: u64, end: u64| Known {
                range: start..end,
                module: k.module,
                vaddr: k.vaddr.wrapping_add(start - k.range.start),
            };
            let low = part(
                k.range.start,
                k.range.end.min(range.start.max(k.range.start)),
            );
            let high = part(k.range.start.max(range.end.min(k.range.end)), k.range.end);
            match range.start < k.range.end && k.range.start < range.end {
                true => [Some(low), Some(high)],
                false => [Some(part(k.range.start, k.range.end)), None],
            }
        };
        let known = self.known.iter().flat_map(beside).flatten();
        self.known = known.filter(|k| !k.range.is_empty()).collect();
    }

    fn module(&mut self, region: &Region) -> ModuleId {
        const VDSO: &[u8] = b"[vdso]";
        if region.inode == 0 && region.path != VDSO {
            return ModuleId::ANON;
        }
        if let Some(n) = self
            .images
            .iter()
            .position(|(p, i, _)| *p == region.path && *i == region.inode)
        {
            return ModuleId(n as u16);
        }
        let Ok(number) = u16::try_from(self.list.len()) else {
            return ModuleId::ANON;
        };
        let path = self.inspected.path(&region.path, region.inode);
        let image = self.inspected.image(&path, region.inode);
        let id = ModuleId(number);
        let build_id = match &image {
            Some(image) => image.build_id.clone(),
            None if region.path == VDSO => self.inspected.vdso_build_id(),
            None => Vec::new(),
        };
        let code = image.as_ref();
        let code = code.and_then(|i| self.inspected.code(&path, region.inode, i));
        self.list.push(Module {
            id,
            path,
            build_id,
            code,
            loaded: None,
        });
        self.images.push((region.path.clone(), region.inode, image));
        id
    }

    /// The call frames of a module, where its file describes them.
    pub fn frames(&self, module: ModuleId) -> Option<Rc<Frames>> {
        let (_, inode, image) = self.images.get(usize::from(module.0))?;
        let path = &self.list.get(usize::from(module.0))?.path;
        self.inspected.frames(path, *inode, image.as_deref()?)
    }

    /// A module that is in no mapping, under a name of its own; the same name is the same module.
    pub fn unmapped(&mut self, name: &str) -> ModuleId {
        let is = |(path, inode, _): &(Vec<u8>, u64, _)| path == name.as_bytes() && *inode == 0;
        if let Some(number) = self.images.iter().position(is) {
            return ModuleId(number as u16);
        }
        let Ok(number) = u16::try_from(self.list.len()) else {
            return ModuleId::ANON;
        };
        self.list.push(Module {
            id: ModuleId(number),
            path: name.into(),
            ..Module::default()
        });
        self.images.push((name.into(), 0, None));
        ModuleId(number)
    }

    /// The run-time address of a place whose module is mapped there.
    pub fn address(&self, place: Place) -> Option<u64> {
        let at = place.vaddr().0;
        let holds = |k: &&Known| {
            k.module == place.module()
                && (k.vaddr..k.vaddr + (k.range.end - k.range.start)).contains(&at)
        };
        let known = self.known.iter().find(holds)?;
        Some(known.range.start + (at - known.vaddr))
    }

    /// The place of an address, remembering the region for the next.
    pub fn place(&mut self, pc: TargetPc) -> Place {
        let holds = |k: &Known| k.range.contains(&pc.0);
        if !self.known.get(self.last).is_some_and(holds)
            && let Some(n) = self.known.iter().position(holds)
        {
            self.last = n;
        }
        self.place_at(pc)
    }

    /// The place of an address.
    pub fn place_at(&self, pc: TargetPc) -> Place {
        let at = pc.0;
        let holds = |k: &&Known| k.range.contains(&at);
        let last = self.known.get(self.last).filter(holds);
        match last.or_else(|| self.known.iter().find(holds)) {
            Some(k) => Place::new(k.module, Vaddr(at - k.range.start + k.vaddr)),
            None => Place::new(ModuleId::ANON, Vaddr(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(range: std::ops::Range<u64>, path: &[u8], inode: u64) -> Region {
        Region {
            range,
            offset: 0,
            inode,
            path: path.to_vec(),
            paths: 0,
        }
    }

    #[test]
    fn modules_without_mappings_are_numbered_among_the_others() {
        let mut m = Modules::new(Images::default());
        m.add(&region(0x1000..0x3000, b"/a", 1));
        let kernel = m.unmapped("[kernel]");
        m.add(&region(0x5000..0x6000, b"/b", 2));
        assert_eq!((kernel, m.unmapped("[kernel]")), (ModuleId(2), ModuleId(2)));
        let found = m.place(TargetPc(0x5010));
        assert_eq!(found, Place::new(ModuleId(3), Vaddr(0x10)));
        let names: Vec<&[u8]> = m.list.iter().map(|module| &module.path[..]).collect();
        assert_eq!(names, [&b"[anon]"[..], b"/a", b"[kernel]", b"/b"]);
    }

    #[test]
    fn a_file_that_was_replaced_is_opened_as_it_is_mapped() {
        let dir = std::env::temp_dir().join(format!("trommel-replaced-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let path = dir.join("file");
        std::fs::copy("/bin/sleep", &path).expect("a copy");
        let mut command = std::process::Command::new(&path);
        let mut child = command.arg("60").spawn().expect("it runs");
        let inode = std::fs::metadata(&path).expect("its inode").ino();
        std::fs::write(dir.join("other"), b"no program").expect("another file");
        std::fs::rename(dir.join("other"), &path).expect("it takes the place");
        let seen_by = |child: &std::process::Child| {
            Images::default().seen_by(Pid::from_raw(child.id() as i32))
        };
        let bytes = path.as_os_str().as_bytes();
        let images = seen_by(&child);
        while deleted(Pid::from_raw(child.id() as i32), inode).is_none() {
            std::thread::yield_now();
        }
        // Without rights it is opened as the program of the process.
        assert!(images.image(bytes, inode).is_some());
        assert_eq!(images.path(bytes, inode), bytes);
        child.kill().expect("it ends");
        child.wait().expect("it has ended");
        let is_plain = has_plain_inodes(&path);
        assert_eq!(
            seen_by(&child).path(bytes, inode).ends_with(DELETED),
            is_plain
        );
        std::fs::remove_dir_all(dir).expect("the directory is removed");
    }

    #[test]
    fn later_regions_replace_earlier_ones() {
        let mut m = Modules::new(Images::default());
        m.add(&region(0x1000..0x3000, b"/a", 1));
        m.add(&region(0x5000..0x6000, b"/b", 2));
        assert_eq!(
            m.place(TargetPc(0x1010)),
            Place::new(ModuleId(1), Vaddr(0x10))
        );
        assert_eq!(
            m.place(TargetPc(0x5010)),
            Place::new(ModuleId(2), Vaddr(0x10))
        );
        assert!(!m.replaces(&region(0x5000..0x6000, b"/b", 2)));
        assert!(m.replaces(&region(0x2000..0x6000, b"/c", 3)));
        m.add(&region(0x2000..0x6000, b"/c", 3));
        assert_eq!(
            m.place(TargetPc(0x5010)),
            Place::new(ModuleId(3), Vaddr(0x3010))
        );
        assert_eq!(
            m.place(TargetPc(0x9000)),
            Place::new(ModuleId::ANON, Vaddr(0x9000))
        );
        // What is beside it stays: a part of /a before it, and, when it is cut itself, of /c after that.
        assert_eq!(
            m.place(TargetPc(0x1010)),
            Place::new(ModuleId(1), Vaddr(0x10))
        );
        m.add(&region(0x3000..0x4000, b"/b", 2));
        assert_eq!(
            m.place(TargetPc(0x2010)),
            Place::new(ModuleId(3), Vaddr(0x10))
        );
        assert_eq!(
            m.place(TargetPc(0x4010)),
            Place::new(ModuleId(3), Vaddr(0x2010))
        );
        m.add(&region(0x8000..0xa000, b"", 0));
        assert_eq!(
            m.place(TargetPc(0x9000)),
            Place::new(ModuleId::ANON, Vaddr(0x9000))
        );
    }
}
