//! The model driven by traces.

mod cycles;
mod listing;
mod machine;
