//! Kind of a program file, by its ELF header and program headers alone.
//!
//! This is the view of the kernel: sections do not matter. It answers before a launch whether the
//! file can run under Trommel and, when not, why, in the terms of whoever typed its name; and it
//! converts between file offsets and vaddrs. Only headers and notes are read, so it costs the same
//! for every size of file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use trommel_tuple::Vaddr;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// The kernel's own limit on the program headers together.
const MAX_PROGRAM_HEADERS: usize = 65536 / PROGRAM_HEADER;
const MAX_PATH: u64 = 4096;
const MAX_NOTES: u64 = 64 << 10;

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const EM_X86_64: u16 = 62;

/// Reasons why a file is no x86-64 ELF file that could run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A directory, device, pipe or socket.
    #[error("{}: is {what}, not a program", path.display())]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// Kind of the file, with an article.
        what: &'static str,
    },
    /// Neither ELF nor a script.
    #[error("{}: neither an ELF program nor a script with a #! line ({found})", path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
        /// Kind of file that was found.
        found: String,
        /// A shell would take it for a text.
        text: bool,
    },
    /// A well-formed ELF file for another machine.
    #[error("{}: {what}; trommel observes 64-bit x86-64 programs only", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Machine that the file is for.
        what: String,
    },
    /// An ELF file that is not a program.
    #[error("{}: is {what}, not a program", path.display())]
    NotExecutableKind {
        /// The file.
        path: PathBuf,
        /// Kind of the file, with an article.
        what: &'static str,
    },
    /// A damaged ELF file.
    #[error("{}: corrupt ELF file: {what}; build or install it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
}

/// Formats of executable files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// An ELF program or library for x86-64.
    Elf(Image),
    /// A script that names its interpreter.
    Script(Script),
}

/// The first line of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// The interpreter.
    pub interpreter: PathBuf,
    /// The one argument that the line may hold.
    pub argument: Option<Vec<u8>>,
}

/// An x86-64 ELF file as the kernel sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Image {
    /// Position independent: `ET_DYN`.
    pub pie: bool,
    /// The dynamic loader; `None` for static programs.
    pub interpreter: Option<PathBuf>,
    /// Address where execution starts.
    pub entry: Vaddr,
    /// The loaded parts, in file order.
    pub segments: Vec<Segment>,
    /// GNU build id; empty where there is none.
    pub build_id: Vec<u8>,
    /// It has requests to Trommel in its code, and says so in a note (`include/trommel.h`).
    pub aware: bool,
}

/// A `PT_LOAD` program header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Offset of the bytes in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Address of the first byte in memory.
    pub vaddr: Vaddr,
    /// Bytes in memory, at least `file_size`.
    pub memory_size: u64,
    /// Says whether it holds code.
    pub executable: bool,
    /// Says whether it can be written.
    pub writable: bool,
}

impl Image {
    /// Returns true if the program needs no dynamic loader.
    pub fn is_static(&self) -> bool {
        self.interpreter.is_none()
    }

    /// The checksum of all executable segments of the file, by their bytes and vaddrs; `None` where they cannot be read.
    ///
    /// There is none where they have more than any code can have: calls reach 2 GiB. Segments of a hostile file may overlap, or be holes.
    ///
    /// It tells builds apart that have no build id. A copy has the same one, and so has a file whose symbols were stripped: the header of the
    /// file is not in it, as it says where sections are.
    pub fn code_checksum(&self, file: &File) -> Option<u32> {
        const AT_ONCE: u64 = 1 << 20;
        const MOST: u64 = 2 << 30;
        let sizes = self.segments.iter().filter(|s| s.executable);
        let size = sizes.fold(0_u64, |all, s| all.saturating_add(s.file_size));
        if size > MOST {
            return None;
        }
        let mut sum = crc32fast::Hasher::new();
        let mut buffer = Vec::new();
        let code = self.segments.iter().filter(|s| s.executable);
        for segment in code {
            sum.update(&segment.vaddr.0.to_le_bytes());
            let end = segment.offset.checked_add(segment.file_size)?;
            let mut at = segment.offset.max(HEADER as u64);
            while at < end {
                buffer.resize((end - at).min(AT_ONCE) as usize, 0);
                file.read_exact_at(&mut buffer, at).ok()?;
                sum.update(&buffer);
                at += buffer.len() as u64;
            }
        }
        Some(sum.finalize())
    }

    fn starts_in_code(&self) -> bool {
        let inside = |s: &&Segment| self.entry.0.wrapping_sub(s.vaddr.0) < s.memory_size;
        self.segments
            .iter()
            .filter(|s| s.executable)
            .any(|s| inside(&s))
    }

    /// The vaddrs from the first byte of its first segment to the last one of its last.
    pub fn extent(&self) -> std::ops::Range<u64> {
        let starts = self.segments.iter().map(|s| s.vaddr.0);
        let ends = self.segments.iter();
        let ends = ends.map(|s| s.vaddr.0.saturating_add(s.memory_size));
        starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
    }

    /// The vaddr at which the byte at file offset `offset` is loaded.
    ///
    /// Mappings are made of whole pages, so an offset that lies in the page of a segment's start
    /// but before it belongs to that segment too, as does the rest of its last page; segments that
    /// cover the offset exactly come first.
    pub fn vaddr_of_offset(&self, offset: u64) -> Option<Vaddr> {
        self.segment_of_offset(offset, |_| true)
    }

    /// Returns the vaddr for a mapping that holds code, as [`Self::vaddr_of_offset`]: with two segments in one page
    /// of the file, the executable one is meant.
    pub fn code_vaddr_of_offset(&self, offset: u64) -> Option<Vaddr> {
        self.segment_of_offset(offset, |s| s.executable)
    }

    fn segment_of_offset(&self, offset: u64, wanted: impl Fn(&Segment) -> bool) -> Option<Vaddr> {
        const PAGE: u64 = 4096;
        let exact = |s: &&Segment| offset.wrapping_sub(s.offset) < s.file_size;
        let paged = |s: &&Segment| {
            let start = s.offset & !(PAGE - 1);
            let end = s
                .offset
                .saturating_add(s.file_size)
                .saturating_add(PAGE - 1)
                & !(PAGE - 1);
            (start..end).contains(&offset)
        };
        let candidates = || self.segments.iter().filter(|s| wanted(s));
        let segment = candidates()
            .find(exact)
            .or_else(|| candidates().find(paged))?;
        let vaddr = segment
            .vaddr
            .0
            .wrapping_add(offset)
            .wrapping_sub(segment.offset);
        Some(Vaddr(vaddr))
    }
}

/// The checksum of the code of the file at `path`, as [`Image::code_checksum`] has it.
pub fn code_checksum(path: &Path) -> Option<u32> {
    let Ok(Format::Elf(image)) = inspect(path) else {
        return None;
    };
    image.code_checksum(&File::open(path).ok()?)
}

/// Looks at the file at `path` as a program to run.
///
/// # Errors
/// Everything that keeps it from running under Trommel, in words.
pub fn inspect_program(path: &Path) -> Result<Format, ElfError> {
    let format = inspect(path)?;
    let Format::Elf(image) = &format else {
        return Ok(format);
    };
    let path = path.to_owned();
    if image.starts_in_code() {
        Ok(format)
    } else if image.pie && image.is_static() && image.entry.0 == 0 {
        let what = "a shared library";
        Err(ElfError::NotExecutableKind { path, what })
    } else {
        let what = format!("its entry point {:#x} is not in its code", image.entry);
        Err(ElfError::Corrupt { path, what })
    }
}

/// Looks at the file at `path` as something that is loaded: a program, a library, a script.
///
/// # Errors
/// Everything that keeps it from being one for x86-64.
pub fn inspect(path: &Path) -> Result<Format, ElfError> {
    let read_error = |source| ElfError::Read {
        path: path.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(path).map_err(read_error)?;
    if !metadata.is_file() {
        return Err(ElfError::NotAFile {
            path: path.to_owned(),
            what: file_kind(metadata.file_type()),
        });
    }
    let file = File::open(path).map_err(read_error)?;
    let source = Source {
        path,
        file,
        length: metadata.len(),
    };
    source.inspect()
}

fn file_kind(kind: std::fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

struct Source<'a> {
    path: &'a Path,
    file: File,
    length: u64,
}

impl Source<'_> {
    fn corrupt(&self, what: impl Into<String>) -> ElfError {
        ElfError::Corrupt {
            path: self.path.to_owned(),
            what: what.into(),
        }
    }

    fn foreign(&self, what: impl Into<String>) -> ElfError {
        ElfError::Foreign {
            path: self.path.to_owned(),
            what: what.into(),
        }
    }

    /// The `size` bytes at `offset`, which must be in the file.
    fn bytes(&self, offset: u64, size: u64, what: &str) -> Result<Vec<u8>, ElfError> {
        if offset.checked_add(size).is_none_or(|end| end > self.length) {
            return Err(self.corrupt(format!(
                "its {what} ({size} bytes at {offset:#x}) reach beyond its end at {:#x}",
                self.length
            )));
        }
        let mut bytes = vec![0; size as usize];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|source| ElfError::Read {
                path: self.path.to_owned(),
                source,
            })?;
        Ok(bytes)
    }

    fn inspect(&self) -> Result<Format, ElfError> {
        let start = self.bytes(0, self.length.min(256), "first bytes")?;
        if start.starts_with(b"#!") {
            return self.script(&start).map(Format::Script);
        }
        if !start.starts_with(b"\x7fELF") {
            return Err(ElfError::NotAProgram {
                path: self.path.to_owned(),
                found: describe(&start),
                text: is_text(&start),
            });
        }
        if start.len() < HEADER {
            return Err(self.corrupt(format!("it ends after {} bytes", start.len())));
        }
        self.image(&start).map(Format::Elf)
    }

    fn script(&self, start: &[u8]) -> Result<Script, ElfError> {
        let line = start[2..].split(|&c| c == b'\n').next().unwrap_or(&[]);
        let line = line.trim_ascii();
        let end = line
            .iter()
            .position(|c| b" \t".contains(c))
            .unwrap_or(line.len());
        let (interpreter, argument) = line.split_at(end);
        let argument = argument.trim_ascii();
        if interpreter.is_empty() || interpreter.contains(&0) {
            return Err(ElfError::NotAProgram {
                path: self.path.to_owned(),
                found: "its #! line names no interpreter".into(),
                text: is_text(start),
            });
        }
        Ok(Script {
            interpreter: path_of(interpreter),
            argument: (!argument.is_empty()).then(|| argument.to_vec()),
        })
    }

    fn image(&self, header: &[u8]) -> Result<Image, ElfError> {
        let machine = u16_at(header, 18);
        match (header[4], header[5]) {
            (1, 1) => {
                let what = if machine == EM_X86_64 {
                    "x32"
                } else {
                    machine_name(machine)
                };
                return Err(self.foreign(format!("is a 32-bit program ({what})")));
            }
            (1, 2) => return Err(self.foreign("is a 32-bit big-endian program")),
            (2, 2) => {
                let machine = machine_name(machine.swap_bytes());
                return Err(self.foreign(format!("is a big-endian program ({machine})")));
            }
            (2, 1) => {}
            (class, order) => {
                return Err(
                    self.corrupt(format!("class {class} and byte order {order} do not exist"))
                );
            }
        }
        if machine != EM_X86_64 {
            return Err(self.foreign(format!("is a program for {}", machine_name(machine))));
        }
        let kind = u16_at(header, 16);
        let what = match kind {
            2 | 3 => None,
            1 => Some("an object file that has not been linked"),
            4 => Some("a core dump"),
            _ => return Err(self.corrupt(format!("file type {kind} does not exist"))),
        };
        if let Some(what) = what {
            return Err(ElfError::NotExecutableKind {
                path: self.path.to_owned(),
                what,
            });
        }
        let mut image = Image {
            pie: kind == 3,
            entry: Vaddr(u64_at(header, 24)),
            ..Image::default()
        };
        for entry in self.program_headers(header)?.chunks_exact(PROGRAM_HEADER) {
            self.program_header(entry, &mut image)?;
        }
        if image.segments.is_empty() {
            return Err(self.corrupt("it has nothing to load"));
        }
        Ok(image)
    }

    fn program_headers(&self, header: &[u8]) -> Result<Vec<u8>, ElfError> {
        let (size, count) = (u16_at(header, 54) as usize, u16_at(header, 56) as usize);
        if size != PROGRAM_HEADER || count == 0 || count > MAX_PROGRAM_HEADERS {
            return Err(self.corrupt(format!("{count} program headers of {size} bytes cannot be")));
        }
        self.bytes(u64_at(header, 32), (count * size) as u64, "program headers")
    }

    fn program_header(&self, entry: &[u8], image: &mut Image) -> Result<(), ElfError> {
        let (offset, size) = (u64_at(entry, 8), u64_at(entry, 32));
        match u32_at(entry, 0) {
            PT_LOAD => {
                let flags = u32_at(entry, 4);
                let segment = Segment {
                    offset,
                    file_size: size,
                    vaddr: Vaddr(u64_at(entry, 16)),
                    memory_size: u64_at(entry, 40),
                    executable: flags & 1 != 0,
                    writable: flags & 2 != 0,
                };
                let end = segment.vaddr.0.checked_add(segment.memory_size);
                if size > segment.memory_size || end.is_none_or(|end| end > 1 << 47) {
                    return Err(self.corrupt(format!(
                        "its segment at {:#x} does not fit into memory",
                        segment.vaddr
                    )));
                }
                if offset.checked_add(size).is_none_or(|end| end > self.length) {
                    return Err(self.corrupt(format!(
                        "its segment at {:#x} ({size} bytes at offset {offset:#x}) reaches beyond \
                         the end of the file at {:#x}: it was cut short",
                        segment.vaddr, self.length
                    )));
                }
                image.segments.push(segment);
            }
            PT_INTERP => {
                if !(2..=MAX_PATH).contains(&size) {
                    return Err(
                        self.corrupt("the name of its dynamic loader is missing or too long")
                    );
                }
                let name = self.bytes(offset, size, "dynamic loader's name")?;
                let Some(end) = name.iter().position(|&c| c == 0).filter(|&end| end > 0) else {
                    return Err(
                        self.corrupt("the name of its dynamic loader is empty or has no end")
                    );
                };
                image.interpreter = Some(path_of(&name[..end]));
            }
            // Notes are a courtesy: damaged ones only cost the build id.
            PT_NOTE if size <= MAX_NOTES => {
                let notes = self.bytes(offset, size, "notes").unwrap_or_default();
                if image.build_id.is_empty() {
                    image.build_id = build_id_in_notes(&notes).unwrap_or_default().to_vec();
                }
                image.aware |= note(&notes, b"Trommel\0", 1).is_some();
            }
            _ => {}
        }
        Ok(())
    }
}

/// The GNU build id among `notes` (4-byte aligned, as GNU tools write them).
pub fn build_id_in_notes(notes: &[u8]) -> Option<&[u8]> {
    note(notes, b"GNU\0", 3)
}

/// Returns what the first note of a name and a kind says.
fn note<'a>(mut notes: &'a [u8], of: &[u8], wanted: u32) -> Option<&'a [u8]> {
    while notes.len() >= 12 {
        let (name, desc) = (u32_at(notes, 0) as usize, u32_at(notes, 4) as usize);
        let kind = u32_at(notes, 8);
        let desc_at = 12_usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = desc_at.checked_add(desc)?;
        let body = notes.get(desc_at..end)?;
        if kind == wanted && notes.get(12..12 + name) == Some(of) {
            return Some(body);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
    None
}

fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// Returns whether a shell would take a file for a text: its first line has no NUL byte.
fn is_text(start: &[u8]) -> bool {
    let line = start.iter().take(80).take_while(|c| **c != b'\n');
    line.into_iter().all(|c| *c != 0)
}

fn describe(start: &[u8]) -> String {
    if start.is_empty() {
        return "it is empty".into();
    }
    let text = start
        .iter()
        .take(64)
        .all(|c| c.is_ascii_graphic() || c.is_ascii_whitespace());
    if text {
        return "it looks like text".into();
    }
    let bytes: Vec<String> = start.iter().take(4).map(|b| format!("{b:02x}")).collect();
    format!("it starts with the bytes {}", bytes.join(" "))
}

fn machine_name(machine: u16) -> &'static str {
    match machine {
        2 | 18 | 43 => "SPARC",
        3 => "i386",
        8 => "MIPS",
        20 | 21 => "PowerPC",
        22 => "S/390",
        40 => "32-bit ARM",
        50 => "Itanium",
        EM_X86_64 => "x86-64",
        183 => "AArch64",
        243 => "RISC-V",
        247 => "BPF",
        258 => "LoongArch",
        _ => "another machine",
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
