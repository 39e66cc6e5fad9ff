//! The processes of a recording, by their numbers.
//!
//! # Problem
//! A process is sampled after the record of its end too, while the kernel puts it away. Such a sample must not make a second process of
//! it; and its number may be another process's soon.
//!
//! # Strategy
//! One that has ended *leaves*: it has its number until a process that begins takes that, or until the second reading of the rings
//! after its end.

use std::collections::HashMap;

use trommel_profile::Profile;

use super::processes::Process;

/// The kernel's number of processes that have none here: in other namespaces, or gone.
const NOBODY: u32 = u32::MAX;

/// Processes that samples may find.
#[derive(Default)]
pub(super) struct Running {
    now: HashMap<u32, Process>,
    /// Those that ended since the last reading, and those that did before.
    leaving: [HashMap<u32, Process>; 2],
    /// Samples of which no process is known.
    nobody: Process,
}

impl Running {
    /// The process of a number. One that no record told of is looked up.
    pub(super) fn process(&mut self, pid: u32) -> &mut Process {
        if pid == 0 || pid == NOBODY {
            return &mut self.nobody;
        }
        if !self.now.contains_key(&pid)
            && let Some(ended) = self.leaving.iter().position(|some| some.contains_key(&pid))
        {
            return self.leaving[ended].entry(pid).or_default();
        }
        (self.now.entry(pid)).or_insert_with(|| Process::found_running(pid))
    }

    /// One begins; those that had its number before.
    pub(super) fn begins(&mut self, pid: u32, process: Process) -> Vec<Process> {
        let [last, before] = &mut self.leaving;
        let had = [last, before, &mut self.now].map(|some| some.remove(&pid));
        self.now.insert(pid, process);
        had.into_iter().flatten().collect()
    }

    /// The numbers of those that run.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.now.keys().copied().collect()
    }

    /// One ends.
    pub(super) fn ends(&mut self, pid: u32) {
        if let Some(process) = self.now.remove(&pid) {
            self.leaving[0].insert(pid, process);
        }
    }

    /// The rings have been read. Returns the processes that no sample can find any more.
    pub(super) fn read(&mut self) -> Vec<Process> {
        self.now.values_mut().for_each(Process::look_for_names);
        self.leaving.swap(0, 1);
        in_order(std::mem::take(&mut self.leaving[0]))
    }

    /// Returns the profiles of all of them so far, and that of the samples of which no process is known. Counts begin anew.
    pub(super) fn taken(&mut self, kernel_build_id: &[u8]) -> (Vec<Profile>, Option<Profile>) {
        let [last, before] = &mut self.leaving;
        let mut all = Vec::new();
        for some in [before, last, &mut self.now] {
            let mut processes: Vec<&mut Process> = some.values_mut().collect();
            processes.sort_by_key(|process| process.pid());
            let taken = processes.into_iter().map(|p| p.taken(kernel_build_id));
            all.extend(taken.flatten());
        }
        (all, self.nobody.taken(kernel_build_id))
    }

    /// All of them, and the samples of which no process is known.
    #[cfg(test)]
    pub(super) fn end(self) -> (Vec<Process>, Process) {
        let [last, before] = self.leaving;
        let all = [before, last, self.now].map(in_order);
        (all.into_iter().flatten().collect(), self.nobody)
    }
}

fn in_order(processes: HashMap<u32, Process>) -> Vec<Process> {
    let mut all: Vec<Process> = processes.into_values().collect();
    all.sort_by_key(Process::pid);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: u32 = 7;

    fn pids(processes: &[Process]) -> Vec<u32> {
        processes.iter().map(Process::pid).collect()
    }

    fn one(running: &mut Running) {
        let process = Process::default().forked(PID);
        assert!(running.begins(PID, process).is_empty());
        running.process(PID).named(PID, b"first".to_vec());
    }

    #[test]
    fn a_sample_after_the_end_finds_the_process_that_ended() {
        let mut running = Running::default();
        one(&mut running);
        running.ends(PID);
        assert_eq!(running.process(PID).name(), b"first");
        assert!(running.read().is_empty());
        assert_eq!(running.process(PID).name(), b"first");
        assert_eq!(pids(&running.read()), [PID]);
        assert_ne!(running.process(PID).name(), b"first");
    }

    #[test]
    fn a_process_that_begins_takes_a_number_over() {
        let mut running = Running::default();
        one(&mut running);
        running.ends(PID);
        let had = running.begins(PID, Process::default().forked(PID));
        assert_eq!(pids(&had), [PID]);
        assert_ne!(running.process(PID).name(), b"first");
        assert!(running.read().is_empty());
        let (rest, nobody) = running.end();
        assert_eq!((pids(&rest), nobody.pid()), (vec![PID], 0));
    }

    #[test]
    fn who_has_no_number_is_nobody() {
        let mut running = Running::default();
        for pid in [0, NOBODY] {
            assert_eq!(running.process(pid).pid(), 0);
        }
        assert!(running.end().0.is_empty());
    }
}
