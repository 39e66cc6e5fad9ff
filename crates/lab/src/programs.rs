//! The programs whose events the lab studies, and their inputs.
//!
//! Problem: figures must come out alike on any bare machine, so nothing may depend on files that
//! happen to be there.
//!
//! Strategy: well-known programs that most machines have or can install, each with an input that is
//! generated here, the same every time. A program that is not installed is left out, and said. What a
//! run reads and does is fixed; which instructions do it is the installed version's business, so
//! figures agree between machines as programs do.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_compress::random::SplitMix64;

/// A program of the lab.
#[derive(Debug)]
pub struct Program {
    /// Name in figures.
    pub name: &'static str,
    /// The command to look for.
    command: &'static str,
    /// Its arguments; `@` stands for its input file.
    arguments: &'static [&'static str],
    /// The input's file name and content.
    input: (&'static str, fn() -> String),
    /// Description for the report.
    pub about: &'static str,
    /// Package to install.
    pub package: &'static str,
    /// The user's own command, in place of all that.
    given: &'static [PathBuf],
}

/// The user's own program, as the only one: a command that is run as it is. It is kept for good.
pub fn own(command: Vec<PathBuf>) -> &'static [Program] {
    let file = command.first().and_then(|file| file.file_name());
    let name = file.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let about: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let about = about.join(" ");
    Box::leak(Box::new([Program {
        name: String::leak(name),
        command: "",
        arguments: &[],
        input: ("", String::new),
        about: String::leak(about),
        package: "",
        given: Vec::leak(command),
    }]))
}

/// A program ready to be run.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// The program and its arguments.
    pub(crate) command: Vec<PathBuf>,
}

/// The programs, the hardest to profile first: the papers' `gcc` and `li` among them.
pub const PROGRAMS: [Program; 8] = [
    Program {
        name: "gcc",
        command: "cc1",
        arguments: &["-quiet", "-O2", "-o", "/dev/null", "@"],
        input: ("program.c", c_source),
        about: "cc1 -O2 compiles a generated program of 300 functions",
        package: "gcc",
        given: &[],
    },
    Program {
        name: "perl",
        command: "perl",
        arguments: &["@"],
        input: ("script.pl", || PERL.into()),
        about: "word counts, regular expressions and sorting",
        package: "perl",
        given: &[],
    },
    Program {
        name: "python",
        command: "python3",
        arguments: &["-S", "-E", "@"],
        input: ("script.py", || PYTHON.into()),
        about: "classes, dictionaries, strings and a sieve",
        package: "python3",
        given: &[],
    },
    Program {
        name: "lua",
        command: "lua5.4",
        arguments: &["@"],
        input: ("queens.lua", || LUA.into()),
        about: "eight queens, as the papers' li, over and over",
        package: "lua5.4",
        given: &[],
    },
    Program {
        name: "sqlite",
        command: "sqlite3",
        arguments: &["-batch", ":memory:", "@sql"],
        input: ("queries.sql", sql),
        about: "inserts, indices, joins and aggregates in memory",
        package: "sqlite3",
        given: &[],
    },
    Program {
        name: "gawk",
        command: "gawk",
        arguments: &["-f", "@"],
        input: ("script.awk", || AWK.into()),
        about: "fields, associative arrays and string functions",
        package: "gawk",
        given: &[],
    },
    Program {
        name: "gzip",
        command: "gzip",
        arguments: &["-9", "-c", "@"],
        input: ("text.txt", text),
        about: "compresses generated prose",
        package: "gzip",
        given: &[],
    },
    Program {
        name: "bzip2",
        command: "bzip2",
        arguments: &["-c", "@"],
        input: ("text.txt", text),
        about: "compresses the same prose",
        package: "bzip2",
        given: &[],
    },
];

impl Program {
    /// Returns true if it is the user's own.
    pub fn is_own(&self) -> bool {
        !self.given.is_empty()
    }

    /// The program as a command line, with its input written below `inputs`; `None` when it is not
    /// installed.
    pub(crate) fn prepare(&self, inputs: &Path) -> io::Result<Option<Ready>> {
        if self.is_own() {
            return Ok(Some(Ready {
                command: self.given.to_vec(),
            }));
        }
        let Some(file) = self.find() else {
            return Ok(None);
        };
        let (name, content) = self.input;
        let input = inputs.join(name);
        if !input.exists() {
            fs::create_dir_all(inputs)?;
            let half = inputs.join(format!(".{name}.{}", std::process::id()));
            let made = fs::write(&half, content()).and_then(|()| fs::rename(&half, &input));
            if made.is_err() {
                let _ = fs::remove_file(&half);
            }
            made?;
        }
        let argument = |a: &&str| match *a {
            "@" => input.clone(),
            "@sql" => PathBuf::from(format!(".read \"{}\"", input.display())),
            other => PathBuf::from(other),
        };
        let command = std::iter::once(file).chain(self.arguments.iter().map(argument));
        Ok(Some(Ready {
            command: command.collect(),
        }))
    }

    fn find(&self) -> Option<PathBuf> {
        if self.command == "cc1" {
            let said = Command::new("gcc")
                .arg("-print-prog-name=cc1")
                .output()
                .ok()?;
            let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
            return is_elf(&path).then_some(path);
        }
        let path = std::env::var_os("PATH")?;
        // A version manager's script of the same name is not the program.
        std::env::split_paths(&path)
            .map(|dir| dir.join(self.command))
            .find(|p| is_elf(p))
    }
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 4];
    let read = fs::File::open(path).and_then(|mut f| f.read_exact(&mut head));
    read.is_ok() && &head == b"\x7fELF"
}

/// Functions that call each other, with loops, tables, switches and floating point.
fn c_source() -> String {
    let mut random = SplitMix64::new(7);
    let mut out = String::from(
        "struct node { struct node *next; int key; double weight; char name[16]; };\n",
    );
    for f in 0..300_u64 {
        let (a, b, c) = (
            random.below(97) + 3,
            random.below(31) + 1,
            random.below(7) + 2,
        );
        let callee = if f > 0 { random.below(f) } else { 0 };
        let _ = writeln!(
            out,
            "static int table{f}[] = {{ {a}, {b}, {c}, {}, {} }};",
            a ^ b,
            a * c
        );
        let _ = writeln!(
            out,
            "int function{f}(struct node *list, int n, int *out) {{\n  int i, sum = {a}; double w = {b}.5;\n  \
             for (i = 0; i < n; i++) {{\n    out[i] = table{f}[i % 5] * {c} + (sum >> {});",
            c % 5 + 1
        );
        for case in 0..random.below(9) + 2 {
            let k = random.below(50);
            let _ = match random.below(4) {
                0 => writeln!(
                    out,
                    "    if (out[i] % {} == {case}) sum += out[i] ^ {k};",
                    k + 2
                ),
                1 => writeln!(
                    out,
                    "    switch (sum & 7) {{ case {}: w *= 1.{k}; break; case {}: sum -= {k}; default: sum++; }}",
                    case % 4,
                    case % 3 + 4
                ),
                2 => writeln!(
                    out,
                    "    while (list && list->key < {k}) {{ w += list->weight; list = list->next; }}"
                ),
                _ => writeln!(out, "    out[(i + {k}) % n] += (int) (w / ({k} + i));"),
            };
        }
        if f > 0 {
            let _ = writeln!(
                out,
                "    if (sum > {}) sum += function{callee}(list, n - 1, out);",
                a * 1000
            );
        }
        out.push_str("  }\n  return sum + (int) w;\n}\n");
    }
    out
}

/// Prose of a small vocabulary, Zipf-like, 6 MB.
fn text() -> String {
    let mut random = SplitMix64::new(11);
    let mut words = Vec::new();
    for _ in 0..4000 {
        let length = 2 + random.below(4) + random.below(5);
        let word: String = (0..length)
            .map(|i| {
                let letters = if i % 2 == 0 {
                    "bcdfghlmnprstvw"
                } else {
                    "aeiou"
                };
                let at = random.below(letters.len() as u64) as usize;
                &letters[at..=at]
            })
            .collect();
        words.push(word);
    }
    let mut out = String::new();
    while out.len() < 6_000_000 {
        for n in 0..6 + random.below(14) {
            if n > 0 {
                out.push(' ');
            }
            // The product of uniform draws favours the first words.
            let at = random.below(4000) * random.below(4000) / 4000 * random.below(4000) / 4000;
            out.push_str(&words[at as usize]);
        }
        out.push_str(if random.below(3) == 0 { ".\n" } else { ", " });
    }
    out
}

fn sql() -> String {
    let mut out = String::from(
        "CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, city INTEGER, age INTEGER);\n\
         CREATE TABLE orders(id INTEGER PRIMARY KEY, person INTEGER, amount REAL, note TEXT);\n\
         CREATE INDEX by_city ON people(city);\nBEGIN;\n",
    );
    let mut random = SplitMix64::new(13);
    for id in 0..12_000 {
        let (city, age) = (random.below(40), random.below(70) + 18);
        let _ = writeln!(
            out,
            "INSERT INTO people VALUES({id},'name{}',{city},{age});",
            random.below(3000)
        );
        let (person, amount) = (random.below(12_000), random.below(100_000));
        let _ = writeln!(
            out,
            "INSERT INTO orders VALUES({id},{person},{amount}/7.0,'note {}');",
            amount % 97
        );
    }
    out.push_str("COMMIT;\n");
    for city in 0..40 {
        let _ = writeln!(
            out,
            "SELECT city, count(*), sum(amount) FROM people JOIN orders ON person=people.id \
             WHERE city={city} AND age>{} GROUP BY age ORDER BY 3 DESC LIMIT 5;\n\
             SELECT count(DISTINCT name) FROM people WHERE name LIKE '%{city}%';\n\
             UPDATE people SET age=age+1 WHERE city={city};",
            city + 20
        );
    }
    out
}

const PERL: &str = r#"use strict; use warnings;
my (%count, $seed); $seed = 42;
sub draw { $seed = ($seed * 1103515245 + 12345) & 0x7fffffff; return ($seed >> 8) % $_[0]; }
for my $round (1 .. 60) {
    my @lines = map { join ' ', map { 'word' . draw(400) } 1 .. 12 } 1 .. 300;
    for my $line (@lines) {
        $count{$_}++ for split / /, $line;
        if ($line =~ /word(\d)\1 .*?word(\d+)$/) { $count{"match$2"} += length $line; }
        (my $copy = $line) =~ s/word(\d+)/<$1>/g;
        $count{substr $copy, 0, 4} += ($copy =~ tr/<//);
    }
    my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
    printf "%s %d\n", $top[0], $count{$top[0]};
}
"#;

const PYTHON: &str = r#"
class Shape:
    def __init__(self, size): self.size = size
    def area(self): return 0
class Square(Shape):
    def area(self): return self.size * self.size
class Circle(Shape):
    def area(self): return 3 * self.size * self.size
def sieve(n):
    flags = [True] * n
    for i in range(2, int(n ** 0.5) + 1):
        if flags[i]:
            for j in range(i * i, n, i): flags[j] = False
    return [i for i in range(2, n) if flags[i]]
def words(seed, n):
    out = []
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) & 0x7fffffff
        out.append("w%d" % (seed >> 8 & 255))
    return seed, out
seed, count = 42, {}
for round in range(200):
    shapes = [Square(i) if i % 3 else Circle(i) for i in range(2000)]
    total = sum(s.area() for s in shapes)
    seed, list_ = words(seed, 3000)
    for w in list_: count[w] = count.get(w, 0) + len(w)
    primes = sieve(8000)
    line = ",".join(str(p) for p in primes[:500]).replace("1", "one").split(",")
    print(total, len(primes), sorted(count, key=count.get)[-1], len(line))
"#;

const LUA: &str = r#"local function ok(a, n, c)
  for i = 1, n - 1 do
    if a[i] == c or a[i] - i == c - n or a[i] + i == c + n then return false end
  end
  return true
end
local found, board = 0, {}
local function add(a, n)
  if n > 8 then
    found = found + 1
    board[#board + 1] = table.concat(a, "-")
    return
  end
  for c = 1, 8 do
    if ok(a, n, c) then a[n] = c; add(a, n + 1) end
  end
end
for round = 1, 400 do
  found, board = 0, {}
  add({}, 1)
  table.sort(board)
  print(round, found, #board, board[1])
end
"#;

const AWK: &str = r#"function draw(n) { seed = (seed * 16807) % 2147483647; return seed % n }
BEGIN {
    seed = 42
    for (round = 1; round <= 100; round++) {
        for (i = 1; i <= 400; i++) {
            line = ""
            for (k = 1; k <= 10; k++) line = line "key" draw(300) (k % 3 ? "," : " ")
            n = split(line, field, /[, ]/)
            for (k = 1; k < n; k++) { count[field[k]]++; total += length(field[k]) }
            if (match(line, /key(1|2)[0-9]+ key/)) hits += RSTART
            gsub(/key/, "k", line)
            tally[substr(toupper(line), 1, 3)] += index(line, "7")
        }
        best = ""
        for (key in count) if (best == "" || count[key] > count[best]) best = key
        printf "%d %s %d %d %d\n", round, best, count[best], total, hits
    }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_every_time() {
        for program in &PROGRAMS {
            assert_eq!((program.input.1)(), (program.input.1)(), "{}", program.name);
        }
        assert!(c_source().contains("function299"));
    }
}
