//! Messages about programs that cannot be started.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use trommel_symbol::build_id_of;
use trommel_symbol::elf::{self, Format};
use trommel_symbol::launch::{self, LaunchError, Program};
use trommel_tuple::Vaddr;

fn resolve(path: &Path) -> Result<Program, LaunchError> {
    launch::resolve(path.as_os_str(), None)
}

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("trommel-launch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("temp dir");
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("mode");
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn refused(path: &Path, code: u8, words: &[&str]) {
    let error = resolve(path).expect_err("it cannot run");
    let text = error.to_string();
    assert_eq!(error.exit_code(), code, "{text}");
    for word in words.iter().chain([&path.to_str().expect("utf-8")]) {
        assert!(text.contains(word), "`{text}` does not say `{word}`");
    }
}

#[test]
fn each_reason_is_named() {
    let dir = Dir::new("reasons");
    let real = std::fs::read("/bin/true").expect("/bin/true");
    let patched = |at: usize, bytes: &[u8]| {
        let mut copy = real.clone();
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        copy
    };
    refused(&dir.0.join("nothing"), 127, &["no such file"]);
    refused(
        &dir.file("in-file", b"x", 0o755).join("sub"),
        127,
        &["no such file"],
    );
    refused(&dir.0, 126, &["directory"]);
    refused(
        &dir.file("plain", &real, 0o644),
        126,
        &["not executable", "chmod"],
    );
    refused(&dir.file("empty", b"", 0o755), 126, &["empty"]);
    refused(&dir.file("text", b"hello\n", 0o755), 126, &["text", "#!"]);
    refused(
        &dir.file("noise", &[0xca, 0xfe, 0xba, 0xbe], 0o755),
        126,
        &["ca fe ba be"],
    );
    refused(
        &dir.file("i386", &patched(4, &[1, 1]), 0o755),
        126,
        &["32-bit", "64-bit x86-64 programs only"],
    );
    refused(
        &dir.file("arm", &patched(18, &[183, 0]), 0o755),
        126,
        &["AArch64"],
    );
    refused(
        &dir.file("sparc", &patched(5, &[2]), 0o755),
        126,
        &["big-endian"],
    );
    refused(
        &dir.file("object", &patched(16, &[1, 0]), 0o755),
        126,
        &["object file"],
    );
    refused(
        &dir.file("core", &patched(16, &[4, 0]), 0o755),
        126,
        &["core dump"],
    );
    refused(
        &dir.file("cut", &real[..real.len() / 2], 0o755),
        126,
        &["corrupt", "cut short"],
    );
    refused(
        &dir.file("header", &real[..40], 0o755),
        126,
        &["corrupt", "ends after 40"],
    );
    refused(
        &dir.file("headers", &patched(56, &[0xff, 0xff]), 0o755),
        126,
        &["corrupt", "program headers"],
    );
    refused(
        &dir.file("entry", &patched(24, &[0xff; 8]), 0o755),
        126,
        &["corrupt", "entry point"],
    );
    refused(Path::new("/dev/null"), 126, &["device"]);
    refused(
        &dir.file("lost", b"#!/nowhere/sh\n", 0o755),
        126,
        &["interpreter", "/nowhere/sh"],
    );
    refused(&dir.file("bare", b"#!\n", 0o755), 126, &["#!"]);
    let error = launch::resolve(OsStr::new("no-such-command"), Some(OsStr::new("/bin")))
        .expect_err("missing");
    assert_eq!(error.exit_code(), 127);
    assert!(error.to_string().contains("command not found"));
}

#[test]
fn libraries_are_loaded_but_not_run() {
    let dir = Dir::new("libraries");
    let source = dir.file("l.c", b"int x = 5; int f(void) { return x; }\n", 0o644);
    let library = dir.0.join("l.so");
    let flags = ["-shared", "-fPIC", "-Wl,--build-id=sha1", "-o"];
    let done = std::process::Command::new("cc")
        .args(flags)
        .arg(&library)
        .arg(&source)
        .status();
    assert!(done.expect("a C compiler").success());
    let Ok(Format::Elf(image)) = elf::inspect(&library) else {
        panic!("not ELF");
    };
    assert_eq!(image.build_id.len(), 20);
    assert_eq!(
        image.build_id,
        build_id_of(&std::fs::read(&library).expect("library"))
    );
    let extent = image.extent();
    assert!(extent.start == 0 && extent.end > 0x1000);
    if image.entry == Vaddr(0) {
        refused(&library, 126, &["is a shared library, not a program"]);
    }
}

#[test]
fn scripts_lead_to_their_interpreter() {
    let dir = Dir::new("scripts");
    let inner = dir.file("inner", b"#! /bin/sh -e\nexit 0\n", 0o755);
    let outer = dir.file(
        "outer",
        format!("#!{}\n", inner.display()).as_bytes(),
        0o755,
    );
    let program = resolve(&outer).expect("a script");
    assert_eq!(
        (program.scripts.len(), program.elf.as_path()),
        (2, Path::new("/bin/sh"))
    );
    assert_eq!(program.scripts[1].argument.as_deref(), Some(&b"-e"[..]));
    let own = dir.0.join("own");
    std::fs::write(&own, format!("#!{}\n", own.display())).expect("file");
    std::fs::set_permissions(&own, PermissionsExt::from_mode(0o755)).expect("mode");
    refused(&own, 126, &["scripts"]);
}

#[test]
fn texts_are_run_by_a_shell() {
    let dir = Dir::new("texts");
    let inner = dir.file("inner", b"exit 3\n", 0o755);
    let outer = format!("#!{} -x\n", inner.display());
    let texts = [
        b"".as_slice(),
        b"exit 3\n",
        b"#!\nexit 3\n",
        "# \u{e4}\nexit 3\n".as_bytes(),
        b"true\n\0",
        outer.as_bytes(),
    ];
    for text in texts {
        let file = dir.file("text", text, 0o755);
        let mut words = [file.as_os_str(), OsStr::new("a")]
            .map(OsStr::to_owned)
            .to_vec();
        let program = launch::resolve_command(&mut words, None).expect("a text");
        assert_eq!(program.path, Path::new("/bin/sh"));
        assert_eq!(
            words,
            [OsStr::new("/bin/sh"), file.as_os_str(), OsStr::new("a")]
        );
    }
    // By the way that the shell takes: from PATH, with the directory.
    let mut words = vec!["inner".into()];
    launch::resolve_command(&mut words, Some(dir.0.as_os_str())).expect("a text");
    assert_eq!(words, [OsStr::new("/bin/sh"), inner.as_os_str()]);
    for (text, mode) in [(b"\0".as_slice(), 0o755), (b"exit 3\n", 0o644)] {
        let file = dir.file("none", text, mode);
        let error = launch::resolve_command(&mut vec![file.into()], None);
        assert_eq!(error.expect_err("no program").exit_code(), 126);
    }
}

#[test]
fn names_are_found_in_path() {
    let program =
        launch::resolve(OsStr::new("true"), Some(OsStr::new("/nowhere:/bin"))).expect("true");
    assert_eq!(program.path, Path::new("/bin/true"));
    assert!(program.image.interpreter.is_some());
}
