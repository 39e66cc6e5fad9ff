//! Message queues in shared memory, as the query engine and the service threads see them (section 3.4.2).
//!
//! The engine knows how many messages it has written. How many were read is a word in memory, which it looks at
//! only when the queue seems full by what it saw last; so a queue may seem full to it that is not any more.

/// The place of queues in the service processors' memory, and of one after the other.
const BASE: u64 = 0x1_0000_0000;
/// Bytes of a message: eight words, of which the machine's have 32 bits.
pub const MESSAGE: u64 = 32;

/// A message: when it is there, and its record's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Time at which its ready word is set.
    pub ready: u64,
    /// The record.
    pub words: [u64; 7],
}

/// One queue.
#[derive(Clone, Debug)]
pub struct Queue {
    number: u64,
    capacity: u64,
    /// Messages in the queue, oldest first.
    messages: std::collections::VecDeque<Message>,
    written: u64,
    /// Messages that the reader has reported as read.
    told: u64,
    /// Messages that the engine has seen as read, and the time at which it sees more.
    seen: u64,
    looked: u64,
    /// The most messages that were in it.
    pub deepest: u64,
    /// Says whether anybody reads it.
    served: bool,
}

impl Queue {
    /// An empty queue. What nobody reads is taken as read.
    pub fn new(number: u8, capacity: u64, served: bool) -> Self {
        Self {
            number: number.into(),
            capacity: capacity.max(1),
            messages: std::collections::VecDeque::new(),
            written: 0,
            told: 0,
            seen: 0,
            looked: 0,
            deepest: 0,
            served,
        }
    }

    /// Returns true if the engine believes that there is room. When it does not, it looks, which takes `access` cycles.
    pub fn has_room(&mut self, now: u64, access: u64) -> bool {
        if self.written - self.seen < self.capacity {
            return true;
        }
        if self.looked == 0 {
            self.looked = now + access;
        } else if now >= self.looked {
            self.looked = 0;
            self.seen = self.told;
            return self.written - self.seen < self.capacity;
        }
        false
    }

    /// Writes a message.
    pub fn write(&mut self, message: Message) {
        self.written += 1;
        if self.served {
            self.messages.push_back(message);
            self.deepest = self.deepest.max(self.messages.len() as u64);
        } else {
            self.told += 1;
        }
    }

    /// The message at the front, if its ready word is set, and its address.
    pub fn front(&self, now: u64) -> Option<(Message, u64)> {
        let message = *self.messages.front()?;
        (message.ready <= now).then_some((
            message,
            self.place(self.written - self.messages.len() as u64),
        ))
    }

    /// The message at the front was read.
    pub fn read(&mut self) {
        self.messages.pop_front();
    }

    /// The reader says how many it has read.
    pub fn tell(&mut self) {
        self.told = self.written - self.messages.len() as u64;
    }

    /// The address of the read status.
    pub const fn status(&self) -> u64 {
        BASE + self.number * 0x1_0000 + 0x8000
    }

    const fn place(&self, message: u64) -> u64 {
        BASE + self.number * 0x1_0000 + message % self.capacity * MESSAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_looked_at_again_after_an_access() {
        let message = Message {
            ready: 5,
            words: [0; 7],
        };
        let mut queue = Queue::new(1, 2, true);
        for _ in 0..2 {
            assert!(queue.has_room(0, 12));
            queue.write(message);
        }
        assert!(!queue.has_room(10, 12));
        assert_eq!(
            (queue.front(4), queue.front(5).map(|f| f.0)),
            (None, Some(message))
        );
        queue.read();
        assert!(!queue.has_room(21, 12));
        // It looks at 22 and sees nothing: the reader has not told.
        assert!(!queue.has_room(22, 12));
        queue.tell();
        assert!(!queue.has_room(23, 12) && !queue.has_room(34, 12));
        assert!(queue.has_room(35, 12));
        assert_eq!(queue.deepest, 2);
    }

    #[test]
    fn what_nobody_reads_is_never_full() {
        let mut queue = Queue::new(1, 1, false);
        for now in 0..100 {
            if queue.has_room(now, 12) {
                queue.write(Message {
                    ready: now,
                    words: [0; 7],
                });
            }
        }
        assert!(queue.written > 5 && queue.front(1000).is_none());
    }
}
