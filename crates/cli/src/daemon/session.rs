//! One process, from when it is attached to until it ends or is detached: a file for each epoch.

use std::path::Path;
use std::time::{Duration, SystemTime};

use trommel_host::kernel::interrupt::Guard;
use trommel_host::serve::epochs::Epochs;
use trommel_host::windows::sampling::Sampling;
use trommel_profile::Profile;
use trommel_profile::merge::Merged;
use trommel_store::database::{EpochWriter, Span};
use trommel_tuple::Kind;

use super::settings::Settings;
use crate::args::SKIP;
use crate::host::{self, Options};
use crate::news;
use crate::output;
use crate::record::TIMED_WINDOW;

/// The status of a session that has said why it did not do its work.
pub(super) const TOLD: u8 = 3;

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

/// Profiles a process until it ends or `guard` is interrupted; the exit status.
pub(super) fn run(settings: &Settings, pid: i32, name: &str, guard: &Guard) -> u8 {
    match profile(settings, pid, name, guard) {
        Ok(()) => 0,
        Err(error) => {
            // Of one that ended meanwhile there is nothing to say.
            if Path::new(&format!("/proc/{pid}/exe")).exists() {
                output::complain(&format!("({name}) is not profiled: {error:#}"));
            }
            TOLD
        }
    }
}

fn profile(settings: &Settings, pid: i32, name: &str, guard: &Guard) -> anyhow::Result<()> {
    let (program, arguments) = host::running(pid)?;
    let path = program.path.as_os_str().as_encoded_bytes();
    let build_id = &program.image.build_id;
    let writer = settings.database.writer(&settings.host, path, build_id);
    let mut flush = Flush {
        writer,
        epoch: settings.epoch,
        waiting: None,
    };
    let kinds = settings.kinds;
    let options = Options {
        sampling: Some(Sampling {
            budget: settings.budget,
            rate: None,
            length: kinds.has(Kind::Latency).then_some(TIMED_WINDOW),
            skip: SKIP,
            by_caller: settings.by_caller,
        }),
        question: settings.question,
        ..Options::of(program, arguments, kinds)?
    };
    let mut notice = |news| {
        let what = news::sentence(&news);
        output::complain(&format!("process {pid} ({name}): {what}"));
    };
    let mut give = |profile| flush.flush(profile);
    let epochs = Epochs::new(settings.epoch, &mut give);
    let recording = host::record_epochs(options, pid, None, guard, &mut notice, Some(epochs))?;
    flush.flush(recording.profile);
    // The process ends now: giving back each piece would only take time.
    std::mem::forget(recording.engine);
    Ok(())
}

/// Writes epochs. What cannot be written waits for the next.
struct Flush {
    writer: EpochWriter,
    epoch: Duration,
    waiting: Option<Profile>,
}

impl Flush {
    fn flush(&mut self, mut profile: Profile) {
        for queries in &mut profile.queries {
            // Times of one session say nothing about sums of several.
            queries.active.clear();
        }
        let failed = self.waiting.is_some();
        let profile = match self.waiting.take() {
            None => profile,
            Some(earlier) => {
                let mut merged = Merged::apart(earlier);
                merged.add(profile);
                merged.profile()
            }
        };
        if let Err(error) = self.writer.write(&profile, span(&profile, self.epoch)) {
            if !failed {
                output::complain(&format!("{error}; it is tried again with the next epoch"));
            }
            self.waiting = Some(profile);
        }
    }
}

/// Returns when it was. An epoch that ended a moment too late ends when it should have.
fn span(profile: &Profile, epoch: Duration) -> Span {
    const LATE: u64 = 500;
    const MILLI: u64 = 1_000_000;
    let from = profile.run.started / MILLI;
    let to = profile.run.started.saturating_add(profile.run.wall) / MILLI;
    let epoch = (epoch.as_millis() as u64).max(1);
    let boundary = to / epoch * epoch;
    match boundary > from && to - boundary <= LATE {
        true => Span { from, to: boundary },
        false => Span { from, to },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_profile::Run;

    #[test]
    fn epochs_end_when_they_should() {
        let of = |started: u64, wall: u64| {
            let run = Run {
                started: started * 1_000_000,
                wall: wall * 1_000_000,
                ..Run::default()
            };
            let profile = Profile {
                run,
                ..Profile::default()
            };
            let Span { from, to } = span(&profile, Duration::from_secs(10));
            (from, to)
        };
        assert_eq!(of(10_020, 9_990), (10_020, 20_000));
        assert_eq!(of(10_020, 3_000), (10_020, 13_020));
        assert_eq!(of(10_020, 200), (10_020, 10_220));
        // It did not come to it in time.
        assert_eq!(of(10_020, 12_000), (10_020, 22_020));
    }
}
