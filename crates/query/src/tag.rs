//! Profile tags: two bits for each instruction of the program, set by software (section 3.1).
//!
//! The paper puts them into the instructions or into additional tables; we derive them from where an
//! instruction is. Rules are tried in order and the *last* one that fits gives the tag, so that a
//! symbol can be taken out of a module; where none fits the tag is 0.

use alloc::string::String;

/// Sets of instructions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Where {
    /// Instructions of a module: a path, or the name of a file.
    Module(String),
    /// Instructions of a function.
    Symbol(String),
    /// Instructions at vaddrs (as `objdump -d` prints them) from the first to before the second.
    Range {
        /// The first.
        from: u64,
        /// After the last.
        to: u64,
        /// The module; none is the program itself.
        module: Option<String>,
    },
}

/// One rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Rule {
    /// The tag, 0 to 3.
    pub tag: u8,
    /// Instructions that get the tag.
    pub place: Where,
}

/// Place of an instruction, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Located<'a> {
    /// The module's path.
    pub module: &'a str,
    /// Says whether the module is the program itself.
    pub is_program: bool,
    /// The address in the module.
    pub vaddr: u64,
    /// The function.
    pub symbol: Option<&'a str>,
}

impl Where {
    /// Returns true if `at` is there.
    pub fn has(&self, at: &Located<'_>) -> bool {
        let named = |name: &str| at.module == name || at.module.rsplit('/').next() == Some(name);
        match self {
            Self::Module(name) => named(name),
            Self::Symbol(name) => at.symbol == Some(name),
            Self::Range { from, to, module } => {
                (*from..*to).contains(&at.vaddr) && module.as_deref().map_or(at.is_program, named)
            }
        }
    }
}

/// The tag of the instruction `at`.
pub fn tag(rules: &[Rule], at: &Located<'_>) -> u8 {
    let last = rules.iter().rev().find(|rule| rule.place.has(at));
    last.map_or(0, |rule| rule.tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rule_that_fits_gives_the_tag() {
        let rule = |tag, place| Rule { tag, place };
        let range = |from, to, module: Option<&str>| Where::Range {
            from,
            to,
            module: module.map(Into::into),
        };
        let rules = [
            rule(1, Where::Module("libz.so.1".into())),
            rule(2, Where::Symbol("inflate".into())),
            rule(3, range(0x10, 0x20, None)),
            rule(0, range(0x80, 0x90, Some("/usr/lib/libz.so.1"))),
        ];
        let zlib = Located {
            module: "/usr/lib/libz.so.1",
            is_program: false,
            vaddr: 0x18,
            symbol: None,
        };
        assert_eq!(tag(&rules, &zlib), 1);
        let inflate = Some("inflate");
        assert_eq!(
            tag(
                &rules,
                &Located {
                    symbol: inflate,
                    ..zlib
                }
            ),
            2
        );
        let at = |vaddr| Located {
            vaddr,
            symbol: inflate,
            ..zlib
        };
        assert_eq!(
            [0x7f, 0x80, 0x8f, 0x90].map(|v| tag(&rules, &at(v))),
            [2, 0, 0, 2]
        );
        let program = Located {
            module: "/bin/app",
            is_program: true,
            ..zlib
        };
        assert_eq!(tag(&rules, &program), 3);
        assert_eq!(
            tag(
                &rules,
                &Located {
                    vaddr: 0x20,
                    ..program
                }
            ),
            0
        );
    }
}
