//! The files of a release: a stripped program, manual pages, completions, headers and documents, as a Debian
//! package and as a tarball. The same sources give the same bytes.
//!
//! * Paths of this machine are mapped away, in Rust and in C.
//! * Archives are sorted, owned by root, and as old as `SOURCE_DATE_EPOCH` or the last commit.
//! * The program needs glibc and `libgcc_s.so`, and nothing else. A static libc cannot load the libraries
//!   of users (`--service`, modules), so these two stay dynamic.
//! * Packages are written here: `dpkg-deb` is only asked to unpack them.

mod archive;
mod build;
mod deb;
mod files;
mod proof;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::{output, workspace};

use archive::Tree;

/// Makes a Debian package and a tarball, and runs the program that is in them.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask release --out target/release-files\n  cargo xtask release --twice        makes all twice, and compares the bytes"
)]
pub(crate) struct Args {
    /// Directory of the results.
    #[arg(long, value_name = "DIR", default_value = "target/release-files")]
    out: PathBuf,
    /// Build everything a second time, in another directory, and compare.
    #[arg(long)]
    twice: bool,
}

/// Name, version and time of a release.
struct Release {
    version: String,
    /// Seconds since 1970 that all files bear.
    time: u64,
}

/// A file that is handed out.
type Product = (String, Vec<u8>);

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let release = Release::of(&workspace())?;
    let products = release.products(&workspace().join("target/release-build"))?;
    let out = workspace().join(&args.out);
    fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    for (name, bytes) in &products {
        let path = out.join(name);
        fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{:>9} KiB  {}", bytes.len() >> 10, path.display());
    }
    for (name, _) in &products {
        proof::unpacked(&out.join(name))?;
    }
    if args.twice {
        let again = release.products(&workspace().join("target/release-build-again"))?;
        proof::same(&products, &again)?;
        println!("the same bytes in {} files, built twice", again.len());
    }
    Ok(())
}

impl Release {
    fn of(root: &Path) -> Result<Release, String> {
        let manifest = fs::read_to_string(root.join("Cargo.toml")).map_err(|e| e.to_string())?;
        let version = manifest
            .lines()
            .find_map(|l| l.strip_prefix("version = \"")?.strip_suffix('"'))
            .ok_or("Cargo.toml has no version")?
            .to_owned();
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => {
                let mut git = Command::new("git");
                output(git.args(["log", "-1", "--format=%ct"]).current_dir(root))
                    .map_err(|e| format!("set SOURCE_DATE_EPOCH: {e}"))?
            }
        };
        let time = time.trim().parse();
        let time = time.map_err(|e| format!("SOURCE_DATE_EPOCH: {e}"))?;
        Ok(Release { version, time })
    }

    /// Builds the program in `target`, and packs it.
    fn products(&self, target: &Path) -> Result<Vec<Product>, String> {
        let program = build::program(&workspace(), target, self.time)?;
        let common = files::of(&workspace(), &program)?;
        let name = format!("trommel-{}-linux-x86_64", self.version);
        let mut debug = Tree::default();
        debug.add(&format!("{name}-debug/trommel.debug"), 0o644, program.debug);
        let products = vec![
            (
                format!("trommel_{}_amd64.deb", self.version),
                deb::package(self, &common)?,
            ),
            (
                format!("{name}.tar.gz"),
                files::portable(&common, &name).tar_gz(self.time),
            ),
            (format!("{name}-debug.tar.gz"), debug.tar_gz(self.time)),
        ];
        Ok(products)
    }
}
