//! The engine: the threads under control, the state that they share, and what is done with it for one of them.
//!
//! A thread leaves the cache by an exit. The room above finds out why. This room lets the app go on ([`go`]): in a fragment
//! that is looked up, generated or recorded ([`fragments`], [`recording`]), or natively ([`native`]). All of it is done with
//! the lock of [`state::Process::runtime`] held.
//!
//! | module | what it does |
//! |---|---|
//! | [`asking`] | the queries of a thread |
//! | [`aware`] | requests of programs that know of us |
//! | [`blocked`] | SIGSEGV, blocked by the app |
//! | [`change`] | code that changes while the program runs |
//! | [`contexts`] | calling contexts of a thread, followed where generated code cannot |
//! | [`counter_arrays`] | counter arrays of threads, taken and left |
//! | [`current`] | the process, for signal handlers |
//! | [`descriptors`] | descriptors through which code may change |
//! | [`fragments`] | fragments: generated, found, dropped |
//! | [`frames`] | contents of the kernel's signal frames |
//! | [`go`] | ways for the app to go on |
//! | [`hints`] | hints from the program |
//! | [`interrupted`] | a system call in which a thread was attached |
//! | [`intervals`] | intervals of profilers, begun and ended |
//! | [`kernel_writes`] | system calls that write where we have protected pages |
//! | [`marks`] | marks in the records of a thread |
//! | [`native`] | detaching |
//! | [`nowhere`] | branches to where no address is |
//! | [`operand`] | addresses of memory operands |
//! | [`own_status`] | signals of the process, as it reads them itself |
//! | [`pairs`] | indirect branches counted, code of pairs made |
//! | [`parts`] | parts of a thread's state |
//! | [`paths`] | threads on acyclic paths |
//! | [`queries`] | what probes of queries cross over for |
//! | [`reclaim`] | memory of the cache, reclaimed |
//! | [`recording`] | paths recorded, traces made of them |
//! | [`rounds`] | rounds of questions about prefetches |
//! | [`runtime`] | methods of what threads use one at a time |
//! | [`served`] | queues of queries that the program serves itself |
//! | [`signals`] | dispositions, mask and alternate stack as the app believes them |
//! | [`state`] | the process, its threads, and what they use one at a time |
//! | [`thread`] | methods of a thread and of the process |
//! | [`value_counters`] | the part of its value counters that a thread uses |
//! | [`variants`] | from one variant of the code to the other |
//! | [`vsyscall`] | calls in the app's name, and the kernel's emulated page |
//! | [`window`] | control for N instructions at a time |
//! | [`x87`] | the x87 unit's record of its last instruction |

pub mod asking;
pub mod aware;
pub mod blocked;
pub mod change;
pub mod contexts;
pub mod counter_arrays;
pub mod current;
pub mod deliveries;
pub mod descriptors;
pub mod fragments;
pub mod frames;
pub mod go;
pub mod hints;
pub mod inherit;
pub mod interrupted;
pub mod intervals;
pub mod kernel_writes;
pub mod marks;
pub mod native;
pub mod nowhere;
pub mod operand;
pub mod own_status;
pub mod pairs;
pub mod parts;
pub mod paths;
pub mod queries;
pub mod reclaim;
pub mod recording;
pub mod rounds;
pub mod runtime;
pub mod served;
pub mod signals;
pub mod state;
pub mod thread;
pub mod value_counters;
pub mod variants;
pub mod vsyscall;
pub mod window;
pub mod x87;
