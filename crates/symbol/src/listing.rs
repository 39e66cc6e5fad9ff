//! Function symbols as linkers and post-link tools see them: by name, binding and source file.
//!
//! Functions that are local to a file may share a name. Tools tell them apart by the file, which the symbol table
//! names before the symbols of each file.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::Sym;

use crate::object_file::ObjectFile;

/// A function symbol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionSymbol {
    /// Its name as it is in the file.
    pub name: Vec<u8>,
    /// Its first vaddr.
    pub start: u64,
    /// Its bytes, 0 where that is not known.
    pub size: u64,
    /// True if only its own file can name it.
    pub local: bool,
    /// The source file of a local one.
    pub file: Option<Vec<u8>>,
}

/// The function symbols of `.symtab`, in the order of their starts; of equal starts as in the file.
pub(crate) fn function_symbols(file: &ObjectFile<'_>) -> Vec<FunctionSymbol> {
    let table = file.symbols(elf::SHT_SYMTAB);
    let mut of_file: Option<Vec<u8>> = None;
    let mut found = Vec::new();
    for symbol in table.iter() {
        let name = table.symbol_name(LE, symbol).unwrap_or_default();
        let section = symbol.st_shndx(LE);
        match symbol.st_type() {
            // What a linker compiled: no source file, and BOLT goes by the file before it.
            elf::STT_FILE if name == b"ld-temp.o" => {}
            elf::STT_FILE => of_file = Some(name.to_vec()).filter(|name| !name.is_empty()),
            elf::STT_FUNC | elf::STT_GNU_IFUNC if section != elf::SHN_UNDEF && !name.is_empty() => {
                let local = symbol.st_bind() == elf::STB_LOCAL;
                found.push(FunctionSymbol {
                    name: name.to_vec(),
                    start: symbol.st_value(LE),
                    size: symbol.st_size(LE),
                    local,
                    file: of_file.clone().filter(|_| local),
                });
            }
            _ => {}
        }
    }
    found.sort_by_key(|symbol| symbol.start);
    found
}

/// The sections of code that `.symtab` has a symbol of, each with its start. BOLT takes such a symbol for the name of a function.
pub(crate) fn section_symbols(file: &ObjectFile<'_>) -> Vec<(u64, Vec<u8>)> {
    let table = file.symbols(elf::SHT_SYMTAB);
    let is = |symbol: &&elf::Sym64<LE>| {
        symbol.st_type() == elf::STT_SECTION && file.is_code(symbol.st_shndx(LE))
    };
    let starts: Vec<u64> = table.iter().filter(is).map(|s| s.st_value(LE)).collect();
    let sections = file.sections().map(|(name, s)| (s.sh_addr.get(LE), name));
    let named = sections.filter(|(start, _)| starts.contains(start));
    named.map(|(start, name)| (start, name.to_vec())).collect()
}

/// Returns true if `.symtab` has names of places in code, whatever they are names of.
pub(crate) fn has_labels(file: &ObjectFile<'_>) -> bool {
    let table = file.symbols(elf::SHT_SYMTAB);
    table.iter().any(|symbol| {
        let named = table
            .symbol_name(LE, symbol)
            .is_ok_and(|name| !name.is_empty());
        let types = [elf::STT_NOTYPE, elf::STT_FUNC];
        named && types.contains(&symbol.st_type()) && file.is_code(symbol.st_shndx(LE))
    })
}
