//! The Debian package: an archive of a version, of what the package says of itself, and of its files.

use super::Release;
use super::archive::{Tree, ar};

/// The package's description of itself.
const CONTROL: &str = "\
Package: trommel
Version: @VERSION@
Architecture: amd64
Maintainer: The Trommel developers <trommel@localhost>
Installed-Size: @SIZE@
Depends: libc6 (>= @LIBC@), libgcc-s1
Section: devel
Priority: optional
Description: finds and uses the hot events of unmodified programs
 Trommel counts branches, calls, loaded values and addresses of a program that
 runs, without recompiling it and without hardware counters. It writes profiles
 for people, compilers and post-link optimisers, and makes programs faster while
 they run.
";

const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: The Trommel developers
License: MIT or Apache-2.0
 Both texts are in /usr/share/doc/trommel.
";

/// Packs the files as a Debian package.
pub(super) fn package(release: &Release, common: &Tree) -> Result<Vec<u8>, String> {
    let mut data = Tree::default();
    for (path, (mode, bytes)) in &common.0 {
        data.add(&format!("./usr/{path}"), *mode, bytes.clone());
    }
    let copyright = COPYRIGHT.as_bytes().to_vec();
    data.add("./usr/share/doc/trommel/copyright", 0o644, copyright);
    let size: usize = data.0.values().map(|(_, bytes)| bytes.len()).sum();
    let (_, program) = common.0.get("bin/trommel").ok_or("no program")?;
    let text = CONTROL
        .replace("@VERSION@", &release.version)
        .replace("@SIZE@", &(size >> 10).to_string())
        .replace("@LIBC@", &libc(program));
    let mut control = Tree::default();
    control.add("./control", 0o644, text.into_bytes());
    let (control, data) = (control.tar_gz(release.time), data.tar_gz(release.time));
    let members: [(&str, &[u8]); 3] = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", &control),
        ("data.tar.gz", &data),
    ];
    Ok(ar(&members, release.time))
}

/// The least version of the C library that a program asks for, by the names of its symbols' versions.
fn libc(program: &[u8]) -> String {
    const MARK: &[u8] = b"GLIBC_2.";
    let minors = program.windows(MARK.len()).enumerate();
    let minors = minors.filter(|(_, window)| *window == MARK).map(|(at, _)| {
        let digits = program[at + MARK.len()..]
            .iter()
            .take_while(|b| b.is_ascii_digit());
        digits.fold(0, |n: u32, digit| {
            n.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
        })
    });
    format!("2.{}", minors.max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_least_libc_is_the_newest_version_that_is_asked_for() {
        assert_eq!(
            super::libc(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.17\0"),
            "2.34"
        );
    }
}
