//! Stream files: what goes in comes out, and bad files end in an error.
#![cfg(feature = "std")]

use proptest::prelude::*;
use trommel_tuple::stream::{Block, End, Error, Module, Problem, Reader, Writer, raw16, read};
use trommel_tuple::{Events, Kind, ModuleId, Place, Tuple};

type Event = (Kind, Tuple);

/// Programs repeat sites and values; everything else must work too.
fn event() -> impl Strategy<Value = Event> {
    let kind = (0u8..7).prop_map(|n| Kind::from_number(n).unwrap());
    let pc = prop_oneof![0x40_1000u64..0x40_1008, any::<u64>()];
    let value = prop_oneof![0u64..3, 0x7ffd_0000u64..0x7ffd_1000, any::<u64>()];
    (kind, pc, value).prop_map(|(kind, pc, value)| (kind, Tuple::new(Place::from_word(pc), value)))
}

fn module(n: u16) -> Module {
    Module {
        id: ModuleId(n),
        path: format!("/usr/lib/module {n}").into_bytes(),
        build_id: vec![n as u8; 20],
    }
}

fn written(events: &[Event], modules: u16, flush_at: &[usize]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for n in 0..modules {
        writer.module(&module(n)).unwrap();
    }
    for (n, (kind, tuple)) in events.iter().enumerate() {
        writer.push(*kind, *tuple).unwrap();
        if flush_at.contains(&n) {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap()
}

fn opened(bytes: &[u8], name: &str) -> Result<Reader, Error> {
    read(
        Box::new(std::io::Cursor::new(bytes.to_vec())),
        name.as_bytes(),
    )
}

/// Everything that can be read, and how it ended.
fn all(mut reader: Reader) -> (Vec<Event>, Vec<Module>, Result<Option<End>, Error>) {
    let mut events = Vec::new();
    let mut block = Block::default();
    loop {
        match reader.next_block(&mut block) {
            Ok(true) => block
                .events()
                .for_each(|kind, tuple| events.push((kind, tuple))),
            Ok(false) => return (events, reader.modules().to_vec(), Ok(reader.end())),
            Err(e) => return (events, reader.modules().to_vec(), Err(e)),
        }
    }
}

proptest! {
    #[test]
    fn events_round_trip(
        events in prop::collection::vec(event(), 0..400),
        modules in 0u16..4,
        flush_at in prop::collection::vec(0usize..400, 0..4),
    ) {
        let bytes = written(&events, modules, &flush_at);
        let (again, names, end) = all(opened(&bytes, "any name").unwrap());
        prop_assert_eq!(again, events);
        prop_assert!(names.into_iter().eq((0..modules).map(module)));
        prop_assert_eq!(end.unwrap(), Some(End::Complete));
    }

    #[test]
    fn corruption_never_panics_and_is_noticed(
        events in prop::collection::vec(event(), 1..200),
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
    ) {
        let mut bytes = written(&events, 1, &[50]);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        match opened(&bytes, "x.tstream") {
            Err(_) => {}
            Ok(reader) => {
                let (again, _, end) = all(reader);
                prop_assert!(events.starts_with(&again));
                prop_assert!(!matches!(end, Ok(Some(End::Complete))));
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        name in prop_oneof![Just("x.tstream"), Just("x.raw16"), Just("x.raw16.zst"), Just("x")],
        begin in prop_oneof![Just(&b""[..]), Just(&b"tstream\n\x01\0\0\0"[..]), Just(&[0x28, 0xb5, 0x2f, 0xfd][..])],
    ) {
        let mut bytes = [begin, &bytes].concat();
        if begin.len() == 12 && bytes.len() >= 16 {
            let crc = crc32fast::hash(&bytes[..12]);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        }
        if let Ok(reader) = opened(&bytes, name) {
            let _ = all(reader);
        }
    }

    /// A block whose checksum is right and whose contents are not: the decoder itself is tried.
    #[test]
    fn hostile_blocks_never_panic(
        tag in prop_oneof![Just(*b"EVTS"), Just(*b"MODS"), Just(*b"TAIL")],
        items in prop_oneof![0u32..20, any::<u32>()],
        mut payload in prop::collection::vec(prop_oneof![0u8..40, any::<u8>()], 0..200),
        honest in any::<bool>(),
    ) {
        if honest {
            // A payload that begins well: one site, then tokens.
            payload.splice(0..0, [1, 2, 16]);
        }
        let mut bytes = written(&[], 0, &[])[..16].to_vec();
        let mut head = Vec::from(tag);
        head.extend(items.to_le_bytes());
        head.extend((payload.len() as u32).to_le_bytes());
        head.extend((payload.len() as u32).to_le_bytes());
        let crc = crc32fast::hash(&[&head[..], &payload].concat());
        head.extend(crc.to_le_bytes());
        bytes.extend(head);
        bytes.extend(payload);
        let _ = all(opened(&bytes, "x.tstream").unwrap());
    }

    #[test]
    fn raw16_round_trips_plain_and_compressed(events in prop::collection::vec(event(), 0..100)) {
        let tuples: Vec<_> = events.iter().map(|(_, tuple)| *tuple).collect();
        let mut plain = Vec::new();
        raw16::write(&mut plain, Events::of_kind(Kind::Edge, &tuples)).unwrap();
        prop_assert_eq!(plain.len(), 16 * events.len());
        let mut encoder = raw16::compressed(Vec::new()).unwrap();
        raw16::write(&mut encoder, Events::of_kind(Kind::Edge, &tuples)).unwrap();
        let compressed = encoder.finish().unwrap();
        for (bytes, name) in [(plain, "a.raw16"), (compressed, "a.raw16.zst")] {
            let (again, _, end) = all(opened(&bytes, name).unwrap());
            prop_assert!(again.iter().map(|(_, tuple)| tuple).eq(&tuples));
            prop_assert_eq!(end.unwrap(), Some(End::Complete));
        }
    }
}

fn some_events(n: u64) -> Vec<Event> {
    let event = |i: u64| {
        let pc = Place::new(ModuleId(1), trommel_tuple::Vaddr(0x1000 + i * 7 % 40));
        (
            Kind::ALL[i as usize % 3],
            Tuple::new(pc, (i * i % 91) << (i % 50)),
        )
    };
    (0..n).map(event).collect()
}

#[test]
fn a_file_cut_anywhere_is_read_to_its_last_whole_block() {
    let events = some_events(300);
    let bytes = written(&events, 2, &[99, 199]);
    let mut counts = std::collections::BTreeSet::new();
    for cut in 0..bytes.len() {
        let (again, _, end) = all(opened(&bytes[..cut], "x.tstream").unwrap());
        assert!(events.starts_with(&again), "cut at {cut}");
        assert!(matches!(end, Ok(Some(End::CutShort { offset })) if offset as usize <= cut));
        counts.insert(again.len());
    }
    assert!(counts.into_iter().eq([0, 100, 200, 300]));
}

#[test]
fn raw16_cut_anywhere_is_read_to_its_last_whole_event() {
    let events = some_events(20);
    let tuples: Vec<_> = events.iter().map(|(_, tuple)| *tuple).collect();
    let mut bytes = Vec::new();
    raw16::write(&mut bytes, Events::of_kind(Kind::Value, &tuples)).unwrap();
    for cut in 0..=bytes.len() {
        let (again, _, end) = all(opened(&bytes[..cut], "x.raw16").unwrap());
        assert_eq!(again.len(), cut / 16);
        assert_eq!(end.unwrap() == Some(End::Complete), cut % 16 == 0);
    }
    let mut encoder = raw16::compressed(Vec::new()).unwrap();
    raw16::write(&mut encoder, Events::of_kind(Kind::Value, &tuples)).unwrap();
    let bytes = encoder.finish().unwrap();
    for cut in 5..bytes.len() {
        let (_, _, end) = all(opened(&bytes[..cut], "x.raw16.zst").unwrap());
        assert!(
            matches!(end, Ok(Some(End::CutShort { .. }))),
            "cut at {cut}: {end:?}"
        );
    }
}

#[test]
fn many_blocks_and_many_sites() {
    let mut random = 1u64;
    let events: Vec<Event> = (0..100_000u64)
        .map(|i| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let pc = Place::from_word(if i < 50_000 { i % 7 } else { random >> 48 });
            (Kind::Value, Tuple::new(pc, random >> (i % 64)))
        })
        .collect();
    let bytes = written(&events, 1, &[]);
    let (again, _, end) = all(opened(&bytes, "x").unwrap());
    assert!(again == events);
    assert_eq!(end.unwrap(), Some(End::Complete));
}

#[test]
fn errors_tell_what_and_where() {
    let bytes = written(&some_events(10), 0, &[]);
    let message = |bytes: &[u8], name: &str| match opened(bytes, name) {
        Err(e) => e.to_string(),
        Ok(reader) => all(reader).2.unwrap_err().to_string(),
    };
    assert!(message(b"hello, world", "notes.txt").contains("not a stream"));
    assert!(message(b"hello, world", "x.tstream").contains("not a stream"));
    let mut later = bytes.clone();
    later[8] = 2;
    let crc = crc32fast::hash(&later[..12]);
    later[12..16].copy_from_slice(&crc.to_le_bytes());
    assert!(message(&later, "x").contains("format 2"));
    let mut bad = bytes.clone();
    bad[40] ^= 1;
    assert!(
        message(&bad, "x").contains("corrupt at offset 16: a block does not match its checksum")
    );
    let longer = [&bytes[..], b"x"].concat();
    assert!(message(&longer, "x").contains("after the trailer"));
    let missing = trommel_tuple::stream::open("/nonexistent/a.tstream")
        .err()
        .unwrap();
    assert!(matches!(missing.problem, Problem::Io(_)));
    assert!(missing.to_string().starts_with("/nonexistent/a.tstream: "));
    assert!(trommel_tuple::stream::open("/").is_err());
}
