//! Processes of a profile, for formats that tell them apart.
//!
//! All other numbers are of the sum. A process has the sum's numbers of modules, so both can be compared place by place.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use trommel_profile::Profile;
use trommel_profile::call_tree::Basis;
use trommel_profile::merge::Merged;

use crate::lines::whole;

/// Processes that are told apart. All others are one.
const MOST: usize = 200;

/// A process.
pub struct Process {
    /// Its program and number; of a database, whose processes are of many machines, the program alone.
    pub name: String,
    /// Its program, without directories.
    pub program: String,
    /// Its command; of several processes, the words that their commands begin with.
    pub command: Vec<Vec<u8>>,
    /// Its number; 0 where that is not known, or several processes are meant.
    pub pid: u32,
    /// It is what all processes are that are not told apart.
    pub is_rest: bool,
    /// The kernel's id of its thread, where it had only one.
    pub thread: Option<u32>,
    /// Its profile, with the numbers of modules that the sum has.
    pub profile: Profile,
}

impl Process {
    /// Those of a sum, with most events first. `apart`: they were not made together.
    pub fn all(sum: &Profile, profiles: Vec<Profile>, apart: bool) -> Vec<Self> {
        let mut named: BTreeMap<String, Vec<Profile>> = BTreeMap::new();
        for profile in profiles {
            let name = name(&profile, apart);
            named.entry(name).or_default().push(profile);
        }
        let mut all: Vec<Self> = named
            .into_iter()
            .map(|(name, profiles)| Self::new(sum, name, profiles))
            .collect();
        let weight = |process: &Self| {
            let profile = &process.profile;
            let events = profile.kinds.values().map(|kind| kind.seen);
            let nodes = profile.call_trees.iter().flat_map(|tree| tree.nodes());
            let own = nodes.map(|node| node.weight.own);
            events.chain(own).fold(0, u64::saturating_add)
        };
        all.sort_by_cached_key(|process| (Reverse(weight(process)), process.name.clone()));
        if all.len() > MOST {
            let rest = all.split_off(MOST);
            let rest = rest.into_iter().map(|process| process.profile);
            let name = "[further processes]";
            all.push(Self {
                program: name.to_owned(),
                command: Vec::new(),
                pid: 0,
                is_rest: true,
                ..Self::new(sum, name.to_owned(), rest.collect())
            });
        }
        all
    }

    fn new(sum: &Profile, name: String, profiles: Vec<Profile>) -> Self {
        let thread = match &profiles[..] {
            [only] => only_thread(only),
            _ => None,
        };
        let first = profiles.first();
        let program = first.map_or_else(String::new, program);
        let pid = first.map_or(0, |profile| profile.origin.pid);
        let mut command = first.map_or_else(Vec::new, |profile| profile.command.clone());
        for profile in &profiles {
            let pairs = command.iter().zip(&profile.command);
            let common = pairs.take_while(|(a, b)| a == b).count();
            command.truncate(common);
        }
        let is_same = |profile: &Profile| profile.origin.pid == pid;
        let pid = if profiles.iter().all(is_same) { pid } else { 0 };
        let mut merged = Merged::new(Profile {
            modules: sum.modules.clone(),
            compressor: sum.compressor.clone(),
            ..Profile::default()
        });
        profiles.into_iter().for_each(|profile| merged.add(profile));
        Self {
            name,
            program,
            command,
            pid,
            is_rest: false,
            thread,
            profile: merged.profile(),
        }
    }

    /// Its labels, by their keys. Processes that are not told apart have none.
    pub(crate) fn labels(&self) -> Vec<(&'static str, String)> {
        if self.is_rest {
            return Vec::new();
        }
        let thread = self.thread.map(|tid| ("thread", tid.to_string()));
        let process = ("process", self.name.clone());
        [process].into_iter().chain(thread).collect()
    }
}

fn name(profile: &Profile, apart: bool) -> String {
    let base = program(profile);
    match profile.origin.pid {
        pid if pid != 0 && !apart => format!("{base} {pid}"),
        _ => base,
    }
}

fn program(profile: &Profile) -> String {
    let Some(word) = profile.command.first() else {
        return profile.sum.map_or("?".to_owned(), |_| whole(profile));
    };
    let base = word.rsplit(|c| *c == b'/').next();
    String::from_utf8_lossy(base.unwrap_or_default()).into_owned()
}

/// The only thread of a process. Where nothing but samples was taken, threads without any are not known.
fn only_thread(profile: &Profile) -> Option<u32> {
    let pid = Some(profile.origin.pid).filter(|pid| *pid != 0);
    let is_counted = !profile.kinds.is_empty() || profile.call_tree(Basis::Contexts).is_some();
    if profile.windows.is_some() || profile.samples.is_some() || !is_counted {
        return None;
    }
    match (profile.threads.started, &profile.threads.each[..]) {
        (0 | 1, _) => pid,
        (_, [one]) => {
            let all = profile.kinds.iter().map(|(kind, data)| (*kind, data.seen));
            let whole = all.filter(|(_, seen)| *seen > 0).eq(one.seen.clone());
            Some(one.tid).filter(|_| whole)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use trommel_profile::{KindProfile, Module, Origin, Thread, Threads};
    use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

    use super::*;

    /// A process with one branch of its second module, executed so many times.
    fn process(pid: u32, path: &str, times: u64) -> Profile {
        let at = Place::new(ModuleId(1), Vaddr(8));
        let module = |id, path: &str| Module {
            id: ModuleId(id),
            path: path.into(),
            ..Module::default()
        };
        let edges = KindProfile {
            seen: times,
            messages: 0,
            counts: [(at, vec![(at.word(), times)])].into(),
        };
        Profile {
            origin: Origin {
                pid,
                ..Origin::default()
            },
            command: vec![b"/bin/app".to_vec()],
            modules: vec![module(0, "[anon]"), module(1, path)],
            kinds: [(Kind::Edge, edges)].into(),
            ..Profile::default()
        }
    }

    #[test]
    fn processes_have_the_numbers_of_the_sum_and_most_events_come_first() {
        let profiles = vec![process(7, "/a", 2), process(8, "/b", 3)];
        let mut sum = Merged::new(profiles[0].clone());
        sum.add(profiles[1].clone());
        let sum = sum.profile();
        let all = Process::all(&sum, profiles.clone(), false);
        let names: Vec<&str> = all.iter().map(|process| &*process.name).collect();
        assert_eq!(names, ["app 8", "app 7"]);
        let places = all
            .iter()
            .map(|p| p.profile.kinds[&Kind::Edge].counts.keys());
        let places: Vec<u16> = places.flatten().map(|at| at.module().0).collect();
        assert_eq!(places, [2, 1]);
        // Of other machines and times, a number says nothing.
        let apart = Process::all(&sum, profiles, true);
        assert_eq!((&*apart[0].name, apart.len()), ("app", 1));
    }

    #[test]
    fn processes_that_are_not_told_apart_are_one() {
        let number = MOST as u32 + 9;
        let profiles: Vec<Profile> = (1..=number).map(|pid| process(pid, "/a", 2)).collect();
        let mut sum = Merged::new(profiles[0].clone());
        profiles[1..].iter().for_each(|p| sum.add(p.clone()));
        let all = Process::all(&sum.profile(), profiles, false);
        let rest = all.last().expect("processes");
        assert_eq!((all.len(), rest.is_rest, rest.pid), (MOST + 1, true, 0));
        assert_eq!(
            (rest.profile.kinds[&Kind::Edge].seen, rest.labels()),
            (18, vec![])
        );
        assert_eq!((&*all[0].program, all[0].pid), ("app", 1));
    }

    #[test]
    fn numbers_that_come_again_are_of_one_process_without_a_thread() {
        let mut second = process(7, "/b", 3);
        let mut sum = Merged::new(process(7, "/a", 2));
        sum.add(second.clone());
        let sum = sum.profile();
        let all = Process::all(&sum, vec![process(7, "/a", 2), second.clone()], false);
        let seen = |all: &[Process]| -> Vec<(String, u64)> {
            let seen = |p: &Process| (p.name.clone(), p.profile.kinds[&Kind::Edge].seen);
            all.iter().map(seen).collect()
        };
        assert_eq!(seen(&all), [("app 7".to_owned(), 5)]);
        assert_eq!(all[0].labels(), [("process", "app 7".to_owned())]);
        // The number of another program is another process.
        second.command = vec![b"/bin/other".to_vec()];
        let all = Process::all(&sum, vec![process(7, "/a", 2), second.clone()], false);
        let wanted = [("other 7".to_owned(), 3), ("app 7".to_owned(), 2)];
        assert_eq!(seen(&all), wanted);
        // Two threads that had the same number, one after the other.
        let thread = Thread {
            number: 1,
            tid: 9,
            seen: [(Kind::Edge, 1)].into(),
        };
        second.threads = Threads {
            started: 2,
            each: vec![thread.clone(), thread],
        };
        assert_eq!(only_thread(&second), None);
    }

    #[test]
    fn a_thread_is_known_where_it_is_the_only_one() {
        let mut profile = process(7, "/a", 2);
        assert_eq!(only_thread(&profile), Some(7));
        let seen = |times| [(Kind::Edge, times)].into();
        let thread = |tid, times| Thread {
            number: 1,
            tid,
            seen: seen(times),
        };
        profile.threads = Threads {
            started: 2,
            each: vec![thread(9, 2)],
        };
        assert_eq!(only_thread(&profile), Some(9));
        profile.threads.each[0].seen = seen(1);
        assert_eq!(only_thread(&profile), None);
        profile.threads.each = vec![thread(7, 1), thread(9, 1)];
        assert_eq!(only_thread(&profile), None);
    }
}
