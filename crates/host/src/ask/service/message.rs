//! The interface of services: messages come in, in the order of each thread.

use trommel_queue::queries::Header;

use crate::channel::modules::Modules;

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The process that sent it.
    pub pid: u32,
    /// Its thread, by number.
    pub thread: u32,
    /// The instruction that sent it, and its queue.
    pub header: Header,
    /// Its words.
    pub words: &'a [u64],
    /// Words of it that are addresses of code, by bit.
    pub places: u8,
    /// Names of its words.
    pub names: &'a [&'static str],
    /// Number and name of the load whose query has sent it.
    pub load: (u32, &'a str),
    /// Executions that its record stands for.
    pub stands_for: u64,
}

/// Receives the messages of a run: those of each thread in the order in which the thread sent them.
pub trait Service {
    /// The next message. `modules` tells what is where in its process at that time.
    fn message(&mut self, message: &Message<'_>, modules: &Modules);

    /// A query has interrupted a thread: `message` is its record, of no queue. With `sync` the thread waits until this has returned.
    fn interrupt(&mut self, message: &Message<'_>, sync: bool, modules: &Modules);
}
