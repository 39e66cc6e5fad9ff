//! Variants of one program: built, recorded, rewritten.

use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, trommel};
use trommel_conformance::wait::children_cpu;

use super::Profile;
use super::sources::Subject;

/// Samples of perf's clock in a second: as many as the kernel allows, and as leave a program on a virtual machine time to get on.
fn clock_rate() -> String {
    const MOST: u32 = 20_000;
    let allowed = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let allowed = allowed
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok());
    allowed.map_or(MOST, |rate| rate.min(MOST)).to_string()
}

/// A directory for each variant, in which the program is `app`.
pub(super) struct Bench<'a> {
    pub(super) subject: &'a Subject,
    llvm: &'a Path,
    scratch: &'a Scratch,
}

/// A way to a variant: its profile and tool, and the directory it is in.
pub(super) struct Variant {
    pub(super) profile: &'static str,
    pub(super) tool: &'static str,
    pub(super) dir: PathBuf,
}

impl<'a> Bench<'a> {
    pub(super) fn new(subject: &'a Subject, llvm: &'a Path, scratch: &'a Scratch) -> Self {
        Self {
            subject,
            llvm,
            scratch,
        }
    }

    pub(super) fn dir(&self, name: &str) -> Result<PathBuf, String> {
        let dir = self.scratch.path(&name.replace(' ', "-"));
        std::fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
        Ok(dir)
    }

    fn tool(&self, name: &str) -> Command {
        Command::new(self.llvm.join(name))
    }

    /// The name of the file that is optimised.
    fn name(&self) -> &'static str {
        match self.subject.library {
            true => "libwork.so",
            false => "app",
        }
    }

    /// The file that is optimised, in a variant's directory.
    pub(super) fn file(&self, dir: &Path) -> PathBuf {
        dir.join(self.name())
    }

    pub(super) fn build(&self, dir: &Path, more: &[&str]) -> Result<(), String> {
        let (sources, driver) = self.subject.sources()?;
        let linker = format!("-fuse-ld={}", self.llvm.join("ld.lld").display());
        let mut command = self.tool(self.subject.compiler());
        // Callgrind of Debian 12 does not read what clang writes of DWARF 5.
        command
            .args(["-O2", "-gdwarf-4", "-w", "-fdebug-info-for-profiling"])
            .args(["-Wl,--emit-relocs,--build-id", &linker])
            .args(self.subject.flags)
            .args(self.subject.options()?)
            .args(more)
            .arg("-o")
            .arg(self.file(dir))
            .args(sources);
        match self.subject.library {
            true => command.args(["-shared", "-Wl,-soname,libwork.so"]),
            false => command.args(&driver),
        };
        output(command.arg("-lm"))?;
        if self.subject.library {
            let mut command = self.tool(self.subject.compiler());
            command.args(["-O2", "-w", "-o"]).arg(dir.join("app"));
            command.args(driver).arg(self.file(dir));
            output(command.arg("-Wl,-rpath,$ORIGIN"))?;
        }
        Ok(())
    }

    /// Takes a profile, of one training run or of several that are added up.
    pub(super) fn record(&self, dir: &Path, profile: &Profile) -> Result<PathBuf, String> {
        let name = profile.name.replace([' ', ','], "-");
        let train = match profile.seconds {
            None => self.subject.train(1),
            Some(seconds) => {
                let took = self.natively(dir)?;
                self.subject.train((seconds / took).ceil() as u32)
            }
        };
        let mut taken = Vec::new();
        for n in 0..profile.runs {
            let data = self.scratch.path(&format!("{name}-{n}.data"));
            let mut command = Command::new(trommel());
            command
                .args(["record", "--quiet", "-e", "edge,call", "-o"])
                .arg(&data)
                .args(profile.options)
                .arg("--")
                .arg(dir.join("app"));
            output(command.args(&train))?;
            taken.push(data);
        }
        if let [only] = &taken[..] {
            return Ok(only.clone());
        }
        let sum = self.scratch.path(&format!("{name}.data"));
        output(
            Command::new(trommel())
                .arg("merge")
                .args(&taken)
                .arg("-o")
                .arg(&sum),
        )?;
        Ok(sum)
    }

    /// Seconds of CPU time that a training run takes.
    fn natively(&self, dir: &Path) -> Result<f64, String> {
        let cpu = || children_cpu().map_err(|e| e.to_string());
        let before = cpu()?;
        output(Command::new(dir.join("app")).args(self.subject.train(1)))?;
        Ok((cpu()? - before).max(0.01))
    }

    pub(super) fn export(
        &self,
        data: &Path,
        format: &str,
        options: &[&str],
    ) -> Result<PathBuf, String> {
        let out = data.with_extension(format);
        let mut command = Command::new(trommel());
        command.args(["export", "--format", format, "--module", self.name()]);
        command.args(options);
        output(command.arg("-o").arg(&out).arg(data))?;
        Ok(out)
    }

    /// The sample profile that LLVM makes of ranges.
    pub(super) fn profgen(&self, base: &Path, ranges: &Path) -> Result<PathBuf, String> {
        let out = ranges.with_extension("profgen.prof");
        let mut command = self.tool("llvm-profgen");
        command.arg(format!("--unsymbolized-profile={}", ranges.display()));
        command.arg(format!("--binary={}", self.file(base).display()));
        output(command.arg(format!("--output={}", out.display())))?;
        Ok(out)
    }

    /// BOLT's profile of perf's samples, where perf may take them.
    pub(super) fn by_clock(&self, base: &Path) -> Result<PathBuf, String> {
        let (data, out) = (
            self.scratch.path("perf.data"),
            self.scratch.path("perf.fdata"),
        );
        let mut command = Command::new("perf");
        command.args([
            "record",
            "-q",
            "-e",
            "cpu-clock:u",
            "-F",
            &clock_rate(),
            "-o",
        ]);
        command.arg(&data).arg("--").arg(base.join("app"));
        output(command.args(self.subject.train(1)))?;
        let mut command = self.tool("perf2bolt");
        command.arg("-nl").arg("-p").arg(&data);
        output(command.arg("-o").arg(&out).arg(self.file(base)))?;
        Ok(out)
    }

    pub(super) fn instrument(&self, base: &Path) -> Result<PathBuf, String> {
        let dir = self.dir("instrumented")?;
        let out = dir.join("profile.fdata");
        let mut command = self.tool("llvm-bolt");
        command.arg(self.file(base)).arg("-instrument");
        command.arg("-o").arg(self.file(&dir));
        output(command.arg(format!("--instrumentation-file={}", out.display())))?;
        self.driver(base, &dir)?;
        output(Command::new(dir.join("app")).args(self.subject.train(1)))?;
        Ok(out)
    }

    /// Copies the program that uses a library.
    fn driver(&self, base: &Path, dir: &Path) -> Result<(), String> {
        if self.subject.library {
            std::fs::copy(base.join("app"), dir.join("app")).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    pub(super) fn bolt(
        &self,
        base: &Path,
        profile: &'static str,
        fdata: &Path,
    ) -> Result<Variant, String> {
        let dir = self.dir(&format!("bolt {}", profile.replace(',', "")))?;
        let mut command = self.tool("llvm-bolt");
        command
            .arg(self.file(base))
            .arg("-o")
            .arg(self.file(&dir))
            .arg(format!("--data={}", fdata.display()))
            .args(["--reorder-blocks=ext-tsp", "--reorder-functions=hfsort"])
            .args(["--split-functions", "--split-all-cold"]);
        output(&mut command)?;
        self.driver(base, &dir)?;
        Ok(Variant {
            profile,
            tool: "BOLT",
            dir,
        })
    }
}
