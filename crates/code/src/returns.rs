//! Functions that never return.
//!
//! A call comes back unless what is called has no way out: a function of the module without a return or a jump elsewhere, or one of
//! those of the C, C++ and Rust libraries that are known to have none.

use std::collections::HashMap;
use std::ops::Range;

use trommel_symbol::{Code, demangle};
use trommel_tuple::{ModuleId, Place};

use crate::body::Body;

/// Functions that never return, by the names that C, C++ and Rust programs have of them.
/// Those that raise an exception come back only where nothing catches it.
const NEVER_RETURN: [&str; 29] = [
    "__libc_start_main",
    "__libc_start_call_main",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "abort",
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "pthread_exit",
    "__assert_fail",
    "__assert_perror_fail",
    "__stack_chk_fail",
    "__fortify_fail",
    "__chk_fail",
    "__libc_fatal",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_throw_bad_array_new_length",
    "__cxa_bad_cast",
    "__cxa_call_unexpected",
    "_Unwind_ForcedUnwind",
    "_Unwind_RaiseException",
    "_Unwind_Resume",
    "_Unwind_Resume_or_Rethrow",
    "std::terminate()",
    "rust_panic",
];
/// The beginnings of names of more of them.
const NEVER_RETURN_AS: [&str; 5] = [
    "std::__throw_",
    "core::panicking::panic",
    "core::option::unwrap_failed",
    "core::result::unwrap_failed",
    "std::process::",
];

/// Returns true if functions of this name, as it is in a file or demangled, are known never to return.
pub fn never_returns(name: &str) -> bool {
    let name = name.strip_suffix("@plt").unwrap_or(name);
    let name = name.split('@').next().unwrap_or(name);
    let mangled = ["_Z", "_R"].iter().any(|start| name.starts_with(start));
    let plain = if mangled {
        demangle(name.as_bytes())
    } else {
        name.to_owned()
    };
    NEVER_RETURN.contains(&&*plain) || NEVER_RETURN_AS.iter().any(|start| plain.starts_with(start))
}

/// Functions of a module that have a way out, as far as that was asked.
pub struct WaysOut<'c, 'a> {
    module: ModuleId,
    code: &'c Code<'a>,
    /// By start.
    functions: &'c [Range<u64>],
    known: HashMap<u64, bool>,
}

impl<'c, 'a> WaysOut<'c, 'a> {
    /// Those of a module, whose functions are given in the order of their starts.
    pub fn new(module: ModuleId, code: &'c Code<'a>, functions: &'c [Range<u64>]) -> Self {
        Self {
            module,
            code,
            functions,
            known: HashMap::new(),
        }
    }

    /// Returns true if the function that begins at a place may be left otherwise than by a call; of other modules' nothing is known.
    pub fn can_leave(&mut self, target: Place) -> bool {
        let start = target.vaddr().0;
        let first = self.functions.partition_point(|f| f.start < start);
        let function = self.functions.get(first).filter(|f| f.start == start);
        let Some(range) = function.filter(|_| target.module() == self.module) else {
            return true;
        };
        let can = || Body::new(self.code, std::slice::from_ref(range), &[]).can_leave();
        *self.known.entry(start).or_insert_with(can)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_mangled_and_not() {
        for name in [
            "abort",
            "exit@plt",
            "abort@@GLIBC_2.2.5",
            "_ZSt9terminatev",
            "_ZSt20__throw_length_errorPKc",
            "std::__throw_bad_alloc()",
            "_ZN4core9panicking5panic17h0123456789abcdefE",
        ] {
            assert!(never_returns(name), "{name}");
        }
        for name in ["main", "exits", "_Z4exiti", ""] {
            assert!(!never_returns(name), "{name}");
        }
    }
}
