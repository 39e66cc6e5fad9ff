//! The order of crates and rooms, and the check that imports follow it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::imports::{self, Imports};
use super::modules::Crate;
use super::{Tidy, shown, subdirectories};

/// The file that holds the order.
pub(crate) const FILE: &str = "crates/xtask/tidy/rooms.txt";

/// The most imports that are listed of one circle.
const LISTED: usize = 40;

/// Rooms in their order, by the name of their house: a crate, or `crates`.
pub(crate) struct Rooms(BTreeMap<String, Vec<String>>);

impl Rooms {
    /// Reads the order in the tree at `root`.
    pub(crate) fn read(root: &Path) -> Rooms {
        let text = fs::read_to_string(root.join(FILE)).unwrap_or_default();
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        let lists = lines.filter_map(|l| l.split_once(':'));
        Rooms(
            lists
                .map(|(house, rooms)| {
                    let rooms = rooms.split_whitespace().map(str::to_owned);
                    (house.to_owned(), rooms.collect())
                })
                .collect(),
        )
    }

    /// Position of `room` in the order of `house`.
    pub(crate) fn place(&self, house: &str, room: &str) -> Option<usize> {
        self.0.get(house)?.iter().position(|r| r == room)
    }
}

/// Checks the imports inside every crate of the tree at `root`.
pub(crate) fn check(root: &Path, rooms: &Rooms, tidy: &mut Tidy) {
    let mut folders = subdirectories(&root.join("crates"));
    folders.extend(subdirectories(&root.join("extra")));
    for folder in folders {
        let house = Crate::read(&folder);
        let imports = imports::of(&house);
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        circles(root, &name, &house, &imports, tidy);
        if rooms.0.contains_key(&*name) {
            upward(root, &name, rooms, &house, &imports, tidy);
        }
    }
}

/// Reports the circles of a crate, with the imports that tie each.
fn circles(root: &Path, name: &str, house: &Crate, imports: &Imports, tidy: &mut Tidy) {
    for circle in imports::circles(house.files.len(), imports) {
        let file = |at: usize| shown(root, &house.files[at].path);
        let within = imports
            .iter()
            .filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
        let mut ties: Vec<String> = within
            .map(|((from, to), tie)| {
                let names: Vec<&str> = tie.names.iter().map(String::as_str).collect();
                let names = names.join(", ");
                format!(
                    "    {}:{}: imports {} ({names})",
                    file(*from),
                    tie.line,
                    file(*to)
                )
            })
            .collect();
        let more = ties.len().saturating_sub(LISTED);
        ties.truncate(LISTED);
        if more > 0 {
            ties.push(format!("    … and {more} more imports"));
        }
        let text = format!(
            "{}: {} files import each other in a circle:\n{}",
            file(circle[0]),
            circle.len(),
            ties.join("\n")
        );
        tidy.found("circle", name, circle.len(), text);
    }
}

/// Reports the imports of a crate that run to a later room.
fn upward(
    root: &Path,
    name: &str,
    rooms: &Rooms,
    house: &Crate,
    imports: &Imports,
    tidy: &mut Tidy,
) {
    let place = |at: usize| {
        let inner = house.files[at]
            .path
            .strip_prefix(house.folder.join("src"))
            .ok()?;
        let first = inner.components().next()?.as_os_str().to_string_lossy();
        let room = first.strip_suffix(".rs").unwrap_or(&first).to_owned();
        (!["lib", "main"].contains(&&*room)).then(|| (rooms.place(name, &room), room))
    };
    for at in 0..house.files.len() {
        if let Some((None, room)) = place(at) {
            let file = shown(root, &house.files[at].path);
            tidy.wrong(format!(
                "{file}:1: {room} is not in the list of rooms of {FILE}"
            ));
        }
    }
    for ((from, to), tie) in imports {
        let Some((Some(low), room)) = place(*from) else {
            continue;
        };
        let Some((Some(high), above)) = place(*to) else {
            continue;
        };
        if high <= low {
            continue;
        }
        let names: Vec<&str> = tie.names.iter().map(String::as_str).collect();
        let text = format!(
            "{}:{}: {room} imports {above}, which comes after it: {} ({})",
            shown(root, &house.files[*from].path),
            tie.line,
            shown(root, &house.files[*to].path),
            names.join(", ")
        );
        tidy.found("upward", name, 1, text);
    }
}
