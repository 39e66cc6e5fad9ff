//! Random walks through the corpus, of which traces are made.
#![allow(unsafe_code)] // reason: reads code.

use super::*;

/// Numbers from a seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

impl World {
    /// Pieces that are executed from a place on, and where they lead.
    fn walk(&self, from: AppPc, random: &mut Random) -> Option<(Vec<Piece>, AppPc)> {
        let mut pieces: Vec<Piece> = Vec::new();
        let (mut start, mut pc, mut insns) = (from, from, 0);
        let mut stack = Vec::new();
        let pieces_at_most = 2 + random.below(14) as usize;
        let mut insn = Insn::plain();
        loop {
            if !self.range.holds(AppPc(pc.0 + 64)) || insns > 60 {
                return None;
            }
            // SAFETY: in the library.
            let code = unsafe { core::slice::from_raw_parts(pc.0 as *const u8, 64) };
            Reader::new(code, pc).read(&mut insn);
            insns += 1;
            let to = match insn.class {
                Class::Plain => None,
                Class::Jcc(_, to) | Class::ShortBranch(to) => {
                    (random.below(2) == 0 && self.range.holds(to)).then_some(to)
                }
                Class::Jmp(to) => {
                    pc = to;
                    continue;
                }
                Class::Call(to) => {
                    stack.push(insn.next());
                    Some(to)
                }
                Class::CallIndirect => {
                    stack.push(insn.next());
                    Some(from)
                }
                Class::JmpIndirect => Some(from),
                Class::Ret(_) => Some(stack.pop().unwrap_or(from)),
                _ => return None,
            };
            let Some(to) = to else {
                pc = insn.next();
                continue;
            };
            pieces.push(Piece { start, insns });
            (start, pc, insns) = (to, to, 0);
            if to == from || pieces.len() >= pieces_at_most {
                return Some((pieces, to));
            }
        }
    }

    /// Traces along random walks, loops among them.
    pub(super) fn traces(&mut self, most: usize) {
        let mut random = Random(1);
        let mut starts: Vec<AppPc> = self.cache.exits.iter().map(|e| e.target).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut left = most;
        for _ in 0..100 * most {
            if left == 0 || starts.is_empty() {
                break;
            }
            let from = starts[random.below(starts.len() as u64) as usize];
            let mut walks = Vec::new();
            for _ in 0..8 {
                walks.extend(self.walk(from, &mut random));
            }
            let closed = walks.iter().filter(|walk| walk.1 == from).count();
            walks.sort_by_key(|walk| (walk.1 != from, walk.0.len()));
            walks.dedup();
            let Some((main, to)) = walks.first() else {
                continue;
            };
            if closed == 0 && random.below(4) != 0 {
                continue;
            }
            left -= 1;
            let closed = *to == from;
            let others = walks[1..].iter().filter(|walk| closed && walk.1 == from);
            let path = Path {
                pieces: main,
                prefix: Prefix::NONE,
                closed,
                others: others.map(|walk| &walk.0[..]).collect(),
                frame: (random.below(4) != 0).then(|| 16 * random.below(8) as i64),
            };
            let checked = random.below(2) == 0;
            let first_exit = self.cache.exits.len();
            let (translator, mut site) = self.site();
            let made = translator.translate_path(&mut site, &path, checked);
            self.note(made, first_exit);
        }
    }
}
