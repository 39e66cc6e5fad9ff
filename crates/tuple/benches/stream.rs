//! Events a second that a stream writer takes and a reader gives, and bytes an event.
//!
//! `cargo bench -p trommel-tuple --features std [-- STREAM…]`. Best of five; not a test.

use std::time::Instant;

use trommel_tuple::stream::{Block, Writer, open, read};
use trommel_tuple::{Kind, Tuple};

fn main() {
    for path in std::env::args().skip(1).filter(|a| !a.starts_with('-')) {
        let mut reader = open(&path).unwrap_or_else(|e| panic!("{e}"));
        let (mut events, mut block) = (Vec::<(Kind, Tuple)>::new(), Block::default());
        while reader
            .next_block(&mut block)
            .unwrap_or_else(|e| panic!("{e}"))
        {
            block.events().for_each(|k, t| events.push((k, t)));
        }
        let rate = |seconds: f64| events.len() as f64 / seconds / 1e6;
        let (mut write, mut again) = (f64::INFINITY, f64::INFINITY);
        let mut size = 0;
        for _ in 0..5 {
            let start = Instant::now();
            let mut writer = Writer::new(Vec::new()).expect("memory takes all");
            for (kind, tuple) in &events {
                writer.push(*kind, *tuple).expect("memory takes all");
            }
            let bytes = writer.finish().expect("memory takes all");
            write = write.min(start.elapsed().as_secs_f64());
            size = bytes.len();
            let start = Instant::now();
            let bytes = Box::new(std::io::Cursor::new(bytes));
            let mut reader = read(bytes, b"").expect("what was written");
            while reader.next_block(&mut block).expect("what was written") {}
            again = again.min(start.elapsed().as_secs_f64());
        }
        println!(
            "{path}: write {:.1} M/s, read {:.1} M/s, {:.3} bytes an event",
            rate(write),
            rate(again),
            size as f64 / events.len() as f64
        );
    }
}
