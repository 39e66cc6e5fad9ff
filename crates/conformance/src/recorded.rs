//! A small program that was recorded, for tests of what is made of profiles.

use std::path::PathBuf;
use std::process::Command;

use crate::built::workspace;
use crate::exec::{Scratch, output, trommel};

/// The source of the program.
pub fn source() -> PathBuf {
    workspace().join("tests/programs/export_calls.c")
}

/// Compiles the program into a directory.
///
/// # Errors
/// What the compiler said if it failed.
pub fn compiled(scratch: &Scratch, compiler: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let program = scratch.path("app");
    let mut build = Command::new(compiler);
    build.args(flags).arg(source()).arg("-o").arg(&program);
    output(&mut build)?;
    Ok(program)
}

/// A program, its profile, and a directory for both.
pub struct Recorded {
    /// The directory.
    pub scratch: Scratch,
    /// The program.
    pub program: PathBuf,
    /// The profile.
    pub data: PathBuf,
}

impl Recorded {
    /// Compiles the program and records its branches and calls.
    ///
    /// # Errors
    /// What a command said that failed.
    pub fn new(compiler: &str, flags: &[&str]) -> Result<Self, String> {
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let program = compiled(&scratch, compiler, flags)?;
        Self::of(scratch, program, &["-e", "edge,call"])
    }

    /// Records a program.
    ///
    /// # Errors
    /// What `record` said if it failed.
    pub fn of(scratch: Scratch, program: PathBuf, options: &[&str]) -> Result<Self, String> {
        Self::stressed(scratch, program, options, "")
    }

    /// Records a program with stress options.
    ///
    /// # Errors
    /// What `record` said if it failed.
    pub fn stressed(
        scratch: Scratch,
        program: PathBuf,
        options: &[&str],
        stress: &str,
    ) -> Result<Self, String> {
        let data = scratch.path("app.data");
        let mut record = Command::new(trommel());
        record
            .arg("record")
            .args(options)
            .arg("-o")
            .arg(&data)
            .arg("--")
            .arg(&program)
            .env("TROMMEL_STRESS", stress);
        output(record.current_dir(scratch.dir()))?;
        Ok(Self {
            scratch,
            program,
            data,
        })
    }

    /// Writes the profile in a format.
    ///
    /// # Errors
    /// What `export` said if it failed.
    pub fn export(&self, format: &str, options: &[&str]) -> Result<PathBuf, String> {
        Ok(self.exported(format, options)?.0)
    }

    /// Writes the profile in a format, and returns what `export` said with it: the next command.
    ///
    /// # Errors
    /// What `export` said if it failed.
    pub fn exported(&self, format: &str, options: &[&str]) -> Result<(PathBuf, String), String> {
        let out = self.scratch.path(&format!("app.{format}"));
        let mut export = Command::new(trommel());
        export
            .args(["export", "--format", format])
            .args(options)
            .arg("-o")
            .arg(&out)
            .arg(&self.data);
        let done = export.output().map_err(|e| format!("{export:?}: {e}"))?;
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        match done.status.success() {
            true => Ok((out, said)),
            false => Err(format!("{export:?}: {}\n{said}", done.status)),
        }
    }
}
