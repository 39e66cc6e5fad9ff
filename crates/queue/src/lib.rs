//! Queues in shared memory.
#![no_std]
