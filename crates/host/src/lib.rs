//! The host's side: launch a program, put the runtime into it, serve the queue, fold what comes.
//!
//! | module | what it does |
//! |---|---|
//! | [`image`] | the runtime's bytes |
//! | [`family`] | the memory files, made |
//! | [`shared`] | one process's slot in them, read with every bound checked |
//! | [`bell`] | waiting for many processes at once |
//! | [`inject`] | the runtime into a stopped process |
//! | [`launch`] | a program started, injected, and waited for |
//! | [`running`] | what `/proc` tells about a process that runs already |
//! | [`tracee`] | its threads, stopped |
//! | [`attach`] | the runtime into it |
//! | [`detach`] | the runtime out of it |
//! | [`keeper`] | the process that does that, whatever happens to this one |
//! | [`interrupt`] | what Ctrl-C means while a program runs |
//! | [`modules`] | run-time addresses to places |
//! | [`dictionary`] | what path numbers mean |
//! | [`only`] | what is observed at all |
//! | [`exact`] | values counted one by one |
//! | [`fold`] | records into a profile |
//! | [`pacer`] | signals that begin windows |
//! | [`toll`] | what such a signal costs |
//! | [`machine`] | samples of all that runs, the kernel included |
//! | [`perf`] | clocks of threads and processors |
//! | [`sampling`] | how many windows a budget allows |
//! | [`conflicts`] | what windows tell of stores and loads in each other's way |
//! | [`custom`] | customisation modules, in a process of their own |
//! | [`levels`] | how long loads take on this machine |
//! | [`windows`] | those of one process |
//! | [`forked`] | processes that are forked between windows |
//! | [`stress`] | options for tests |
//! | [`tracing`] | options of `trommel run` |
//! | [`series`] | what an engine does over time |
//! | [`audit`] | what of that is the program's own work |
//! | [`progress`] | how fast the program gets on, natively and under control |
//! | [`failure`] | where the runtime failed |
//! | [`stream`] | events into a file |
//! | [`pids`] | process numbers in other namespaces |
//! | [`process`] | one process served, from its first record to its profile |
//! | [`queries`], [`service`] | relational queries: what is asked, and what is done with messages |
//! | [`follow`] | processes that become other programs |
//! | [`session`] | all processes of a run |
//! | [`record`] | all of it, for a program and what it starts |
//!
//! Architecture invariant: only [`inject`], [`launch`], [`follow`], [`tracee`], [`attach`] and [`detach`] know ptrace; nothing here prints.
//!
//! **I31 (who prints).** Only `cli` prints. The runtime writes one line to stderr if it fails itself.

pub mod ask;
pub mod channel;
pub mod fold;
pub mod kernel;
pub mod machine;
pub mod ptrace;
pub mod serve;
pub mod takeover;
pub mod windows;
