//! Latencies of loads in small programs, as `trommel latency` reports them.
//!
//! The figures are of this machine and differ from run to run; where the kernel refuses windows there are none, and that is
//! said.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Lab;
use crate::runs::Kernel;

/// A load.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Offset in its file.
    pub(crate) at: u64,
    /// The function that it is in.
    pub(crate) function: String,
    /// Number of times it was seen.
    pub(crate) samples: f64,
    /// The part of them that found their bytes in each level, by the level's name.
    pub(crate) shares: Vec<(String, f64)>,
}

impl Load {
    /// The part that was of a level.
    pub(crate) fn share(&self, level: &str) -> f64 {
        let found = self.shares.iter().find(|(name, _)| name == level);
        found.map_or(0.0, |(_, share)| *share)
    }
}

impl Lab<'_> {
    /// The loads of a program that is built here; `None`, and said, where that cannot be had.
    pub(crate) fn latencies(&self, kernel: &Kernel, options: &[&str]) -> Option<Vec<Load>> {
        let trommel = self.trommel.as_ref()?;
        let subject = self.build(kernel, "-O2")?;
        (self.progress)(&format!("{}, with latencies", kernel.name));
        let file = self
            .cache
            .join(format!(".latencies.{}", std::process::id()));
        let recorded = Command::new(trommel)
            .args(["record", "--quiet", "-e", "latency"])
            .args(options)
            .arg("-o")
            .arg(&file)
            .arg("--")
            .args(subject.command())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output();
        let told = Command::new(trommel)
            .args(["latency", "--json"])
            .arg(&file)
            .output();
        let _ = fs::remove_file(&file);
        let recorded = recorded.ok()?;
        if !recorded.status.success() {
            let why = String::from_utf8_lossy(&recorded.stderr).into_owned();
            (self.say)(&format!("{} has no latencies: {why}", kernel.name));
            return None;
        }
        let told: Value = serde_json::from_slice(&told.ok()?.stdout).ok()?;
        Some(told["loads"].as_array()?.iter().filter_map(load).collect())
    }
}

fn load(told: &Value) -> Option<Load> {
    let share = |level: &Value| {
        let name = level["name"].as_str()?.to_owned();
        Some((name, level["share"].as_f64()?))
    };
    Some(Load {
        at: told["at"]["vaddr"].as_u64()?,
        function: told["at"]["function"].as_str().unwrap_or("").to_owned(),
        samples: told["samples"].as_f64()?,
        shares: told["levels"]
            .as_array()?
            .iter()
            .filter_map(share)
            .collect(),
    })
}
