//! Indirect branches counted, and the code of pairs made ([`crate::observe::pairs`]).

use trommel_queue::dict::{Event, TargetPc};

use crate::base::address::{AppPc, CachePc};
use crate::base::emit::{Code, Reg};
use crate::base::ids::ExitId;
use crate::base::prefix::{Key, Prefix};
use crate::cache::{Exit, UNLINKED};
use crate::channel::shields::Profiler;
use crate::engine::state::{Runtime, Thread};
use crate::observe::pairs::{Branch, Counted, CountedBy, Pair, Uncounted};
use crate::slot;
use crate::translate::{Known, Refusal, Translator, pair_check};

impl Runtime {
    /// A branch with this key to `to` has come to the dispatcher: counts it, and makes its way
    /// shorter. `None`: it is not counted.
    pub fn count_pair(
        &mut self,
        thread: &mut Thread,
        key: Key,
        to: AppPc,
    ) -> Result<Option<Counted>, Uncounted> {
        let Some(branch) = self.pairs.branch(key) else {
            return Ok(None);
        };
        let pair = match self.pairs.known.get(&(key, to.0)) {
            Some(&pair) => pair,
            None => {
                let tail = Event::Indirect {
                    pc: TargetPc(branch.pc.0),
                    target: TargetPc(to.0),
                    call: branch.call,
                };
                // The host finds out what is there when it meets the path.
                let (translator, mut site) = self.site();
                let region = Translator::region(&mut site, to);
                if region == Err(Refusal::Unnamed) {
                    return Err(Uncounted::Unnamed);
                }
                let by = if translator.profiler().is_some() {
                    translator
                        .subject(&mut site, tail)?
                        .map(CountedBy::Profiler)
                } else {
                    let message = translator.message(&mut site, tail)?;
                    message.map(|(counter, number)| CountedBy::Sampler(counter, number))
                };
                let by = match by {
                    Some(by) => by,
                    None => {
                        let (block, passed) = branch.block;
                        CountedBy::Exit(site.shared.path(block, passed, Some(tail))?)
                    }
                };
                Pair { by, code: None }
            }
        };
        // Its code is of the variant in which its exit can be linked: a thread that is leaving another has none made.
        let place = branch.variant == self.cache.variant();
        let code = pair.code;
        let code = match code.is_none() && place {
            true => self.place_pair(branch, key, to, pair),
            false => code,
        };
        self.pairs.known.insert((key, to.0), Pair { code, ..pair });
        match pair.by {
            CountedBy::Profiler(subject) => {
                let profiler = self.translator.profiler();
                let of_kind = profiler.and_then(|profiler| profiler.of_kind(branch.kind()));
                thread.count_known(subject, of_kind);
            }
            CountedBy::Sampler(counter, number) => thread.count_event(counter, number),
            CountedBy::Exit(number) => thread.count_or_record(number, 0),
        }
        if let Some((at, _)) = code {
            self.targets[thread.targets].put(to, key, at);
        }
        let exit = code.map(|(_, exit)| exit);
        Ok(Some(Counted { exit }))
    }

    /// Writes the code of a pair.
    fn place_pair(
        &mut self,
        branch: Branch,
        key: Key,
        to: AppPc,
        pair: Pair,
    ) -> Option<(CachePc, ExitId)> {
        const ROOM: usize = 384;
        let counter = match pair.by {
            CountedBy::Profiler(subject) => Profiler::cell(subject),
            CountedBy::Sampler(counter, _) => counter,
            CountedBy::Exit(number) => self.translator.counter(number)?,
        };
        let mut prefix = Prefix::NONE;
        if self.translator.ways.acyclic.is_some() {
            let on = self.path_of_pair(key, to)?;
            if let Some(acyclic) = self.translator.counting_acyclic() {
                prefix = acyclic.number_if_few(to, on);
            }
        }
        let near = |pc| self.regions.range_of(pc);
        let region = near(to).or_else(|| near(branch.pc))?;
        let arena = self.cache.arena_for(region)?;
        if to.0 >> 47 != 0 || self.cache.arena(arena).room() < ROOM as u64 {
            return None;
        }
        let at = self.cache.arena(arena).next();
        let mut bytes = [0; ROOM];
        let mut code = Code::new(at, &mut bytes);
        pair_check(&mut code, to, key);
        let mut ends = None;
        let mut ways = None;
        match pair.by {
            CountedBy::Profiler(subject) => {
                let of_kind = self.translator.profiler()?.of_kind(branch.kind());
                let found = code.shield_with_rcx(counter, of_kind);
                ways = Some((found, subject, code.at(code.here())));
            }
            CountedBy::Sampler(_, path) => {
                let (end, _) = code.count_down_with_rcx(counter);
                ends = Some((end, path, code.at(code.here())));
            }
            CountedBy::Exit(_) => {
                code.count_with(Reg::RDX, counter);
            }
        }
        code.load_gs(Reg::RDX, slot!(spill_rdx));
        code.load_gs(Reg::RCX, slot!(spill_rcx));
        code.patchable(1);
        let from = code.jmp();
        // An exit that is not linked goes on one byte later: a distance of 0 is that of exits that never are.
        code.raw(&[0x90]);
        code.bind(from, code.here());
        let exit = self.cache.new_exit(Exit {
            patch: code.at(from.0),
            prefix,
            next_link: match prefix {
                Prefix::UNKNOWN => pair.by.number().map_or(UNLINKED, |number| number.0),
                _ => UNLINKED,
            },
            stub: 1,
            ..Exit::fixed(to)
        });
        code.store_gs_imm32(slot!(exit), exit.0);
        code.jmp_gs(slot!(entry.exit));
        if let Some((end, path, back)) = ends {
            code.bind(end, code.here());
            let start = self.translator.sampler().map_or(0, |s| s.rate());
            let known = Known {
                counter,
                path,
                start,
            };
            code.send_message(true, known, back);
        }
        if let Some((ways, subject, after)) = ways {
            code.unshielded(true, subject, &ways);
            code.interval_ended(ways.ended, after, None);
        }
        self.cache.place_lead(arena, code.bytes());
        Some((at, exit))
    }
}
