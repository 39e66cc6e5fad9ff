//! News of a run, in sentences.

use trommel_host::serve::failure::RuntimeFailure;
use trommel_host::serve::identity::Identity;
use trommel_host::serve::news::{News, Who, WindowCounts};

use crate::output;
use crate::status;

/// Writes news to stderr.
pub(crate) fn say(news: News) {
    output::complain(&sentence(&news));
}

/// News in one sentence.
pub(crate) fn sentence(news: &News) -> String {
    match news {
        News::NoControl(why) => {
            format!("`trommel query` cannot change the queries of this session: {why}")
        }
        News::NoWindows(error) => format!("no windows: {error}"),
        News::WindowCounts(counts) => window_counts(counts),
        News::Detached(who, why) => {
            format!(
                "not observed from here on: {} runs natively because {why}",
                self::who(who)
            )
        }
        News::RuntimeFailed(failure) => runtime_failed(failure),
        News::ModuleFailed(why) => {
            format!("the customisation module has FAILED {why}; the program goes on")
        }
        News::Damaged(damaged) => format!("the profile is incomplete: {damaged}"),
        News::StreamCut { error, goes_on } => match goes_on {
            true => format!("{error}; the stream ends there, the profile does not"),
            false => format!("{error}; the stream is cut short, the profile is not"),
        },
        News::FileRunsNatively { path, pid, why } => format!(
            "{} (process {pid}) runs natively: {}",
            String::from_utf8_lossy(path),
            why.words()
        ),
        News::NotInjected(identity, why) => {
            let why = why.as_ref().map(|e| format!(" ({e})")).unwrap_or_default();
            format!(
                "{} runs natively: the runtime could not be put into it{why}",
                name(identity)
            )
        }
        News::NotAttached(identity, why) => format!("{} runs natively: {why}", name(identity)),
        News::MessagesMissing(error) => {
            format!("messages are missing: {error}; the profile has all of them")
        }
        News::NotDetached(why) => format!("it could not be detached cleanly: {why}"),
        limit => limits(limit),
    }
}

/// News of what there was no room for, or no time.
fn limits(news: &News) -> String {
    match news {
        News::ChildrenUnobserved(who) => format!(
            "not observed: children of {}, for which there is no room, run natively",
            self::who(who)
        ),
        News::ValuesDropped(who) => format!(
            "the values of {} take all the memory that counting may have: rare ones are dropped from here on. \
             --memory gives more, -c 'H[P256]2048+A16' needs less",
            self::who(who)
        ),
        News::UnselectedRanges(most) => format!(
            "--only selects more than {most} ranges of code: what comes after them is NOT observed; record with -c exact, \
             which has no such limit"
        ),
        News::UntaggedRanges(most) => format!(
            "code has more than {most} ranges with profile tags: what comes after them has tag 0"
        ),
        News::GoesOn(1) => "the program has ended; 1 process of its goes on natively".to_owned(),
        News::GoesOn(n) => format!("the program has ended; {n} processes of its go on natively"),
        News::Progress(state) => status::sentence(state),
        _ => String::new(),
    }
}

fn runtime_failed(failure: &RuntimeFailure) -> String {
    let callers: String = failure
        .callers
        .iter()
        .map(|caller| format!(", from {caller}"))
        .collect();
    format!(
        "the runtime raised signal {} in {}{callers} (build {:x})",
        failure.signal, failure.at, failure.build
    )
}

fn window_counts(counts: &WindowCounts) -> String {
    let each = counts.counts.map(|(name, count)| format!("{name} {count}"));
    let last: Vec<String> = (counts.last.iter())
        .map(|[from, to, n]| format!("{from:x}-{to:x}:{n}"))
        .collect();
    format!("windows: {}; last {}", each.join(", "), last.join(" "))
}

fn who(who: &Who) -> String {
    match who {
        Who::Program => "the program".to_owned(),
        Who::Process(identity) => name(identity),
    }
}

fn name(identity: &Identity) -> String {
    let name = identity.command.first().map(|n| String::from_utf8_lossy(n));
    format!(
        "process {} ({})",
        identity.pid,
        name.as_deref().unwrap_or("?")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_goes_on_and_several_go_on() {
        let text = |n| sentence(&News::GoesOn(n));
        assert!(text(1).ends_with("1 process of its goes on natively"));
        assert!(text(2).ends_with("2 processes of its go on natively"));
    }

    #[test]
    fn a_failure_names_its_callers() {
        let failure = RuntimeFailure {
            signal: 11,
            at: "a+0x10".to_owned(),
            callers: vec!["b+0x2".to_owned()],
            build: 0xab,
        };
        assert_eq!(
            sentence(&News::RuntimeFailed(failure)),
            "the runtime raised signal 11 in a+0x10, from b+0x2 (build ab)"
        );
    }
}
