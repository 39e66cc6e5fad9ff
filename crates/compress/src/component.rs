//! The shape of every component: events in, messages out.

use trommel_tuple::{Events, Kind, Kinds, Message, Tuple};

/// A receiver of messages.
pub trait Sink {
    /// A message.
    fn message(&mut self, message: Message);

    /// An interval of so many events ended, of an interval profiler; its messages were sent before.
    fn interval_end(&mut self, _events: u64) {}
}

impl<F: FnMut(Message)> Sink for F {
    #[inline]
    fn message(&mut self, message: Message) {
        self(message);
    }
}

/// A component that takes events and sends messages.
pub trait Compress {
    /// One event.
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S);

    /// Events in order. The same as one after the other.
    ///
    /// Each form of the kinds has its own loop with the event inlined: as a closure shared by both
    /// it would become a call for every event.
    #[inline]
    fn events<S: Sink + ?Sized>(&mut self, events: Events<'_>, out: &mut S) {
        match events.kinds() {
            Kinds::All(kind) => {
                for tuple in events.tuples() {
                    self.event(kind, *tuple, out);
                }
            }
            Kinds::Each(kinds) => {
                for (tuple, kind) in events.tuples().iter().zip(kinds) {
                    self.event(*kind, *tuple, out);
                }
            }
        }
    }

    /// Events counted inside and not sent; `None` where message counts are estimates or
    /// candidates only, so that counts and held events need not add up to the events.
    fn held(&self) -> Option<u64>;
}
