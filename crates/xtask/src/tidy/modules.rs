//! The modules of a crate: a file each, or a block inside one; the names that each defines and binds.
//!
//! Modules are found as the compiler finds them: from a root (`lib.rs`, `main.rs`) by `mod name;`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::lex::{self, At, Token};

/// The number of a module within its crate.
pub(crate) type Id = usize;

/// A module of a crate.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// Index of the file that holds it.
    pub(crate) file: usize,
    pub(crate) parent: Option<Id>,
    pub(crate) root: Id,
    pub(crate) children: BTreeMap<String, Id>,
    /// Names that `use` binds, and the paths that they stand for.
    pub(crate) bound: BTreeMap<String, Vec<String>>,
    /// Paths of which `use` takes all names.
    pub(crate) globs: Vec<Vec<String>>,
    /// Names of the items that are defined here.
    pub(crate) own: BTreeSet<String>,
    /// Paths that the code names.
    pub(crate) named: Vec<Named>,
}

/// A path in the code of a module.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
    pub(crate) form: Form,
}

/// Forms in which code names a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In an expression, a type or a bound.
    Code,
    /// `use path;`
    Use,
    /// `pub use path;`
    PublicUse,
    /// `use path::*;`
    Glob,
    /// `pub use path::*;`
    PublicGlob,
}

/// A source file of the crate.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// All words of its code.
    pub(crate) words: BTreeSet<String>,
}

/// The modules of a crate.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    /// The crate's folder.
    pub(crate) folder: PathBuf,
    pub(crate) files: Vec<File>,
    pub(crate) modules: Vec<Module>,
    /// Macros of `#[macro_export]`, which are named from the root.
    pub(crate) exported: BTreeMap<String, Id>,
    /// Name of the library, by which a program of the same crate calls it, and its root.
    pub(crate) library: Option<(String, Id)>,
}

impl Crate {
    /// Reads the crate whose folder this is.
    pub(crate) fn read(folder: &Path) -> Crate {
        let mut this = Crate {
            folder: folder.to_owned(),
            ..Crate::default()
        };
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let name = manifest
            .lines()
            .find_map(|l| l.strip_prefix("name = \"")?.strip_suffix('"'))
            .unwrap_or_default()
            .replace('-', "_");
        for root in ["src/lib.rs", "src/main.rs", "build.rs"] {
            let path = folder.join(root);
            if path.is_file() {
                let id = this.modules.len();
                this.file(&path, None, path.parent().unwrap_or(folder));
                if root == "src/lib.rs" {
                    this.library = Some((name.clone(), id));
                }
            }
        }
        this
    }

    /// Reads the file of a module, whose children lie in the folder `inner`.
    fn file(&mut self, path: &Path, parent: Option<Id>, inner: &Path) -> Id {
        let text = fs::read_to_string(path).unwrap_or_default();
        let tokens = lex::code(&text);
        let words = tokens.iter().filter_map(|(_, t)| match t {
            Token::Word(w) => Some((*w).to_owned()),
            _ => None,
        });
        self.files.push(File {
            path: path.to_owned(),
            words: words.collect(),
        });
        let id = self.add(self.files.len() - 1, parent);
        if text.contains("#[macro_export]") {
            self.exports(&tokens, id);
        }
        self.body(&tokens, id, inner);
        id
    }

    fn add(&mut self, file: usize, parent: Option<Id>) -> Id {
        let id = self.modules.len();
        let root = parent.map_or(id, |p| self.modules[p].root);
        self.modules.push(Module {
            file,
            parent,
            root,
            ..Module::default()
        });
        id
    }

    /// Registers the macros of a file that exports macros.
    fn exports(&mut self, tokens: &[At<'_>], id: Id) {
        for pair in tokens.windows(3) {
            if let [(_, Token::Word("macro_rules")), _, (_, Token::Word(name))] = pair {
                self.exported.insert((*name).to_owned(), id);
            }
        }
    }

    /// Reads the code of module `id`.
    fn body(&mut self, tokens: &[At<'_>], id: Id, inner: &Path) {
        let mut depth = 0;
        let mut at = 0;
        while let Some((line, token)) = tokens.get(at) {
            let rest = &tokens[at..];
            let before = at.checked_sub(1).map(|b| tokens[b].1);
            match token {
                Token::Word("mod") => {
                    at += self.child(rest, id, inner);
                    continue;
                }
                Token::Word("use") => {
                    at += self.import(rest, id, before);
                    continue;
                }
                Token::Word("extern") if matches!(rest.get(2), Some((_, Token::Sign('{')))) => {
                    at += 3;
                    depth += 1;
                    let end = at + lex::group(&tokens[at - 1..]) - 1;
                    self.definitions(&tokens[at..end], id);
                    continue;
                }
                Token::Word(_) if before != Some(Token::Path) => {
                    if depth == 0 {
                        self.definition(rest, id);
                    }
                    let path = path(rest);
                    let visibility = before == Some(Token::Word("in"))
                        && at >= 2
                        && tokens[at - 2].1 == Token::Sign('(');
                    if path.len() > 1 && !visibility {
                        let length = 2 * path.len() - 1;
                        self.modules[id].named.push(Named {
                            line: *line,
                            path,
                            form: Form::Code,
                        });
                        at += length;
                        continue;
                    }
                }
                Token::Sign('{') => depth += 1,
                Token::Sign('}') => depth -= 1,
                _ => {}
            }
            at += 1;
        }
    }

    fn definitions(&mut self, tokens: &[At<'_>], id: Id) {
        for at in 0..tokens.len() {
            self.definition(&tokens[at..], id);
        }
    }

    /// Notes the name of the item that begins here.
    fn definition(&mut self, tokens: &[At<'_>], id: Id) {
        let name = match tokens {
            [
                (_, Token::Word("macro_rules")),
                _,
                (_, Token::Word(name)),
                ..,
            ] => *name,
            [
                (_, Token::Word(kind)),
                (_, Token::Word("mut")),
                (_, Token::Word(name)),
                ..,
            ] if *kind == "static" => *name,
            [(_, Token::Word(kind)), (_, Token::Word(name)), ..]
                if [
                    "fn", "struct", "enum", "union", "trait", "type", "const", "static",
                ]
                .contains(kind) =>
            {
                *name
            }
            _ => return,
        };
        self.modules[id].own.insert(name.to_owned());
    }

    /// Reads `mod name;` or `mod name { … }`, and returns the number of its tokens.
    fn child(&mut self, tokens: &[At<'_>], id: Id, inner: &Path) -> usize {
        let Some((_, Token::Word(name))) = tokens.get(1) else {
            return 1;
        };
        let (child, length) = match tokens.get(2) {
            Some((_, Token::Sign('{'))) => {
                let length = lex::group(&tokens[2..]);
                let child = self.add(self.modules[id].file, Some(id));
                self.body(&tokens[3..length + 1], child, &inner.join(name));
                (child, 2 + length)
            }
            Some((_, Token::Sign(';'))) => {
                let flat = inner.join(format!("{name}.rs"));
                let path = if flat.is_file() {
                    flat
                } else {
                    inner.join(name).join("mod.rs")
                };
                (self.file(&path, Some(id), &inner.join(name)), 3)
            }
            _ => return 1,
        };
        self.modules[id].children.insert((*name).to_owned(), child);
        length
    }

    /// Reads a `use`, and returns the number of its tokens.
    fn import(&mut self, tokens: &[At<'_>], id: Id, before: Option<Token<'_>>) -> usize {
        let end = tokens
            .iter()
            .position(|t| t.1 == Token::Sign(';'))
            .unwrap_or(tokens.len());
        // `impl Trait + use<'a>` is no import.
        if matches!(tokens.get(1), Some((_, Token::Sign('<')))) {
            return 1;
        }
        let public = matches!(before, Some(Token::Word("pub") | Token::Sign(')')));
        let mut leaves = Vec::new();
        tree(&tokens[1..end], &mut Vec::new(), &mut leaves);
        let module = &mut self.modules[id];
        for (line, path, binding) in leaves {
            let form = match (binding.as_str(), public) {
                ("*", false) => Form::Glob,
                ("*", true) => Form::PublicGlob,
                (_, false) => Form::Use,
                (_, true) => Form::PublicUse,
            };
            if binding == "*" {
                module.globs.push(path.clone());
            } else if binding != "_" {
                module.bound.insert(binding, path.clone());
            }
            module.named.push(Named { line, path, form });
        }
        end + 1
    }
}

/// The words of the path that begins here: `a::b::c`.
fn path(tokens: &[At<'_>]) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = tokens;
    while let [(_, Token::Word(word)), after @ ..] = rest {
        words.push((*word).to_owned());
        match after {
            [(_, Token::Path), next @ ..] => rest = next,
            _ => break,
        }
    }
    words
}

/// A leaf of a tree of imports: its line, its path, and the name that it binds.
type Leaf = (usize, Vec<String>, String);

/// Takes a tree of imports apart.
fn tree(tokens: &[At<'_>], above: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    let depth = above.len();
    let mut line = tokens.first().map_or(0, |t| t.0);
    let mut at = 0;
    let mut alias = None;
    while let Some((here, token)) = tokens.get(at) {
        match token {
            Token::Word("as") => {
                alias = tokens.get(at + 1).map(|t| t.1);
                at += 1;
            }
            Token::Word("self") if above.len() > depth || !above.is_empty() => line = *here,
            Token::Word(word) => {
                line = *here;
                above.push((*word).to_owned());
            }
            Token::Sign('*') => {
                leaves.push((*here, above.clone(), "*".to_owned()));
                above.truncate(depth);
                return;
            }
            Token::Sign('{') => {
                let end = at + lex::group(&tokens[at..]) - 1;
                branches(&tokens[at + 1..end], above, leaves);
                above.truncate(depth);
                return;
            }
            _ => {}
        }
        at += 1;
    }
    let binding = match alias {
        Some(Token::Word(word)) => word.to_owned(),
        _ => above.last().cloned().unwrap_or_default(),
    };
    if !binding.is_empty() {
        leaves.push((line, above.clone(), binding));
    }
    above.truncate(depth);
}

/// Takes each branch of a tree apart: what stands between commas.
fn branches(tokens: &[At<'_>], above: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    let mut from = 0;
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].1 {
            Token::Sign('{') => at += lex::group(&tokens[at..]),
            Token::Sign(',') => {
                tree(&tokens[from..at], above, leaves);
                at += 1;
                from = at;
            }
            _ => at += 1,
        }
    }
    if from < tokens.len() {
        tree(&tokens[from..], above, leaves);
    }
}
