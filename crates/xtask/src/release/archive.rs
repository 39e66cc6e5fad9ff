//! Archives of files: tar, gzip and ar, with the same bytes for the same files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use flate2::{Compression, GzBuilder};

/// Files by their path, without a leading slash: mode and bytes.
#[derive(Clone, Default)]
pub(super) struct Tree(pub(super) BTreeMap<String, (u32, Vec<u8>)>);

const BLOCK: usize = 512;

/// Lengths of the two fields of a path in a header of tar.
const NAME: usize = 100;
const PREFIX: usize = 155;

impl Tree {
    pub(super) fn add(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        self.0.insert(path.to_owned(), (mode, bytes));
    }

    /// A compressed tar file, sorted, with directories before what is in them.
    pub(super) fn tar_gz(&self, time: u64) -> Vec<u8> {
        let mut tar = Vec::new();
        let mut seen = BTreeSet::new();
        for (path, (mode, bytes)) in &self.0 {
            for (at, _) in path.match_indices('/') {
                let dir = &path[..=at];
                if dir != "./" && seen.insert(dir) {
                    tar.extend(header(dir, 0o755, 0, time, b'5'));
                }
            }
            tar.extend(header(path, *mode, bytes.len(), time, b'0'));
            tar.extend(bytes);
            tar.resize(tar.len().next_multiple_of(BLOCK), 0);
        }
        tar.resize(tar.len() + 2 * BLOCK, 0);
        gzip(&tar)
    }
}

/// A header of tar, of the format `ustar`.
fn header(path: &str, mode: u32, size: usize, time: u64, kind: u8) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let (prefix, name) = match path.len() <= NAME {
        true => ("", path),
        false => {
            let from = path.len() - NAME - 1;
            let cut = path[from..path.len() - 1].find('/').map_or(0, |p| from + p);
            (&path[..cut], &path[cut + 1..])
        }
    };
    assert!(
        name.len() <= NAME && prefix.len() <= PREFIX,
        "{path}: too long for tar"
    );
    let mut put =
        |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    // Owner and group: root, by number and by name.
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, &format!("{time:011o}"));
    // The sum is taken with spaces in its own place.
    put(148, "        ");
    put(257, "ustar\x0000");
    put(265, "root");
    put(297, "root");
    put(345, prefix);
    block[156] = kind;
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// Compresses without a name or a time.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzBuilder::new().write(Vec::new(), Compression::best());
    let done = out.write_all(bytes).and_then(|()| out.finish());
    done.expect("memory can be written")
}

/// An archive of `ar`, in the order of its members.
pub(super) fn ar(members: &[(&str, &[u8])], time: u64) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let size = bytes.len();
        out.extend(
            format!(
                "{name:<16}{time:<12}{:<6}{:<6}{:<8}{size:<10}`\n",
                0, 0, "100644"
            )
            .bytes(),
        );
        out.extend(*bytes);
        out.resize(out.len().next_multiple_of(2), b'\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_its_sum_and_splits_long_paths() {
        let path = format!("{}/{}", "d".repeat(80), "f".repeat(60));
        let block = header(&path, 0o644, 5, 1, b'0');
        assert!(block.starts_with("f".repeat(60).as_bytes()));
        assert!(block[345..].starts_with("d".repeat(80).as_bytes()));
        let printed = std::str::from_utf8(&block[148..154]).expect("digits");
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, b)| {
                if (148..156).contains(&at) {
                    32
                } else {
                    u32::from(*b)
                }
            })
            .sum();
        assert_eq!(u32::from_str_radix(printed, 8), Ok(sum));
    }

    #[test]
    fn the_same_files_make_the_same_archive() {
        let mut tree = Tree::default();
        tree.add("a/b", 0o644, b"text".to_vec());
        assert_eq!(tree.tar_gz(7), tree.clone().tar_gz(7));
        assert_ne!(tree.tar_gz(7), tree.tar_gz(8));
    }
}
