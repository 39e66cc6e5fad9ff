//! What happens when control leaves the cache: translate, link, look up.
//!
//! [`dispatch`] runs on the runtime's stack with the app's state in the [`Context`]. It decides
//! where the app goes on and sets [`Context::target`]; the caller resumes there. Whatever cannot go
//! on in the cache is single-stepped natively or let go (see [`crate::native`]).
#![allow(unsafe_code)] // reason: the runtime is reached through an address in the context.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::LetGo;

use crate::area::{Context, Reason};
use crate::cache::{AppPc, Cache, CachePc};
use crate::deliver::{HostGone, Shared};
use crate::emit::{Code, Reg};
use crate::native;
use crate::region::{Range, Regions};
use crate::signal::Signals;
use crate::slot;
use crate::syscall;
use crate::targets::Targets;
use crate::translate::{Refusal, Site, Translator, tag_check};

/// Everything the runtime knows, in one place that the thread area points to.
pub struct Runtime {
    /// Makes fragments.
    pub translator: Translator,
    /// Holds them.
    pub cache: Cache,
    /// What memory is code.
    pub regions: Regions,
    /// The queue and the dictionary.
    pub shared: Shared,
    /// The app's signal handlers and what is pending.
    pub signals: Signals,
    /// Address of the write pointer.
    pub write_pointer: *mut u64,
    /// Where indirect branches lead.
    pub targets: Targets,
    /// The runtime's own code.
    pub image: Range,
    /// Bytes of cache at which it is flushed (small under stress).
    pub cache_limit: u64,
    /// This process runs natively from the next trap on.
    pub leaving: bool,
    /// One app instruction runs natively, with the trap flag set.
    pub stepping: bool,
    /// That instruction is the next to be executed.
    pub stepping_there: bool,
}

impl Runtime {
    /// The runtime of a context.
    ///
    /// # Safety
    /// The context must be a started runtime's; only one reference may be in use at a time.
    pub unsafe fn of<'a>(context: &Context) -> &'a mut Self {
        // SAFETY: set once at the start, never freed; the caller answers for exclusiveness.
        unsafe { &mut *(context.runtime as *mut Self) }
    }

    /// Hands the runtime to the context for good.
    pub fn install(self, context: &mut Context) {
        context.runtime = Box::into_raw(Box::new(self)) as u64;
    }

    fn translate(&mut self, pc: AppPc, checked: bool) -> Result<u32, Refusal> {
        let mut site = Site {
            cache: &mut self.cache,
            regions: &mut self.regions,
            shared: &mut self.shared,
        };
        let made = self.translator.translate(&mut site, pc, checked);
        if let Ok(id) = made {
            let control = self.shared.control();
            control.fragments.fetch_add(1, Relaxed);
            let insns = u64::from(self.cache.fragments[id as usize].insns);
            control.instructions.fetch_add(insns, Relaxed);
            control.cache_bytes.store(self.cache.bytes(), Relaxed);
        }
        made
    }

    /// The fragment of `pc`, made if need be. The flag says that everything was flushed.
    fn fragment(&mut self, pc: AppPc, checked: bool) -> Result<(u32, bool), Refusal> {
        if let Some(id) = self.cache.lookup(pc) {
            return Ok((id, false));
        }
        let full = self.cache_limit != 0 && self.cache.bytes() > self.cache_limit;
        if !full {
            match self.translate(pc, checked) {
                Err(Refusal::CacheFull) => {}
                made => return made.map(|id| (id, false)),
            }
        }
        self.flush();
        match self.translate(pc, checked) {
            Err(Refusal::CacheFull) => Err(Refusal::OutOfSpace),
            made => made.map(|id| (id, true)),
        }
    }

    /// Drops all fragments.
    fn flush(&mut self) {
        self.cache.flush();
        self.shared.control().invalidations.fetch_add(1, Relaxed);
        self.targets.clear();
    }

    /// Where indirect branches enter a fragment; made when first asked for.
    fn checked_entry(&mut self, id: u32) -> Option<CachePc> {
        let fragment = self.cache.fragments[id as usize];
        if fragment.checked.is_some() {
            return fragment.checked;
        }
        let arena = self.cache.arena_of(fragment.entry)?;
        if self.cache.arena(arena).stub_room() < 64 {
            return None;
        }
        let at = self.cache.arena(arena).next_stub();
        let mut code = Code::new(at, 256);
        tag_check(&mut code, fragment.app);
        code.load_gs(Reg::RDX, slot!(spill_rdx));
        code.load_gs(Reg::RCX, slot!(spill_rcx));
        let from = code.jmp();
        let rel = fragment.entry.0 as i64 - code.at(from.0).0 as i64 - 4;
        code.put_u32(from.0, rel as i32 as u32);
        self.cache.place_stub(arena, code.bytes());
        self.cache.fragments[id as usize].checked = Some(at);
        Some(at)
    }

    /// The app's code in `range` may have changed: fragments made from it are never entered again.
    pub fn invalidate(&mut self, range: Range) {
        if !self.regions.forget(range) {
            return;
        }
        self.shared.control().invalidations.fetch_add(1, Relaxed);
        for id in 0..self.cache.fragments.len() {
            let fragment = self.cache.fragments[id];
            if fragment.retired || !fragment.span.meets(&range) {
                continue;
            }
            if let Some(entry) = fragment.checked {
                self.targets.forget(fragment.app, entry);
            }
            let Some(arena) = self.cache.arena_of(fragment.entry) else {
                continue;
            };
            let at = self.cache.arena(arena).next_stub();
            let exit = self.cache.exits.len() as u32;
            self.cache.exits.push(crate::cache::Exit {
                patch: CachePc(0),
                target: fragment.app,
            });
            let mut code = Code::new(at, 256);
            code.store_gs_imm32(slot!(exit), exit);
            code.jmp_gs(slot!(entry.exit));
            self.cache.place_stub(arena, code.bytes());
            self.cache.retire(id as u32, at);
        }
    }

    /// Lets the app go on at `pc`. `from` is the exit to link with it.
    pub fn go(&mut self, context: &mut Context, pc: AppPc, from: Option<CachePc>, checked: bool) {
        context.next_pc = pc;
        context.at_boundary = 1;
        match self.fragment(pc, checked) {
            Ok((id, flushed)) => {
                let entry = self.cache.fragments[id as usize].entry;
                context.target = entry;
                if let Some(patch) = from.filter(|p| p.0 != 0 && !flushed) {
                    self.link(patch, entry);
                }
                if checked && let Some(at) = self.checked_entry(id) {
                    self.targets.put(pc, at);
                }
            }
            Err(Refusal::Native) => native::step(self, context),
            Err(Refusal::Vsyscall) => {
                syscall::vsyscall(context, pc);
                let next = context.next_pc;
                self.go(context, next, None, false);
            }
            Err(Refusal::WritableCode) => native::let_go(self, context, LetGo::WritableCode),
            Err(Refusal::Instruction) => native::let_go(self, context, LetGo::Instruction),
            Err(Refusal::Gs) => native::let_go(self, context, LetGo::GsBase),
            Err(Refusal::NoMaps) => native::let_go(self, context, LetGo::NoMaps),
            Err(Refusal::OutOfSpace | Refusal::CacheFull) => {
                native::let_go(self, context, LetGo::OutOfSpace);
            }
        }
    }

    /// Links an exit: directly, or through its stub when the fragment is in an arena too far away.
    fn link(&mut self, patch: CachePc, entry: CachePc) {
        // SAFETY: an exit's displacement is code of ours, and it still leads to its stub.
        let rel = unsafe { (patch.0 as *const i32).read_unaligned() };
        let stub = (patch.0 as i64 + 4 + i64::from(rel)) as u64;
        if !self.cache.link(patch, entry) {
            let mut code = Code::new(CachePc(stub), 256);
            code.jmp_far(entry.0);
            // SAFETY: a stub is longer than the far jump, and no thread is in it.
            unsafe {
                core::ptr::copy_nonoverlapping(code.bytes().as_ptr(), stub as *mut u8, code.here());
            }
        }
    }

    /// Publishes the records up to the write pointer.
    pub fn publish(&mut self) -> Result<(), HostGone> {
        // SAFETY: the write pointer is in the thread page, which stays mapped.
        unsafe {
            let next = self.shared.publish(self.write_pointer.read())?;
            self.write_pointer.write(next);
        }
        Ok(())
    }

    /// Publishes, and waits until the host has folded everything.
    pub fn drain(&mut self) -> Result<(), HostGone> {
        // SAFETY: as in `publish`.
        unsafe {
            let next = self.shared.drain(self.write_pointer.read())?;
            self.write_pointer.write(next);
        }
        Ok(())
    }
}

/// Entered from `arch::enter` with the app's state in `context`.
///
/// # Safety
/// Only `arch::enter` may call this.
pub unsafe extern "C" fn dispatch(context: &mut Context) {
    // SAFETY: entered once at a time; the context is a started runtime's.
    let runtime = unsafe { Runtime::of(context) };
    runtime.shared.control().dispatches.fetch_add(1, Relaxed);
    let exit = |runtime: &Runtime, context: &Context| runtime.cache.exits[context.exit as usize];
    match context.reason {
        r if r == Reason::Exit as u32 => {
            let exit = exit(runtime, context);
            runtime.go(context, exit.target, Some(exit.patch), false);
        }
        r if r == Reason::Indirect as u32 => {
            runtime
                .shared
                .control()
                .indirect_misses
                .fetch_add(1, Relaxed);
            let pc = context.next_pc;
            runtime.go(context, pc, None, true);
        }
        r if r == Reason::Syscall as u32 => {
            let next = exit(runtime, context).target;
            syscall::handle(runtime, context, next);
        }
        r if r == Reason::Full as u32 => {
            context.at_boundary = 0;
            if runtime.publish().is_err() {
                native::host_gone(runtime, context);
            }
        }
        r if r == Reason::Cloned as u32 => {
            let next = exit(runtime, context).target;
            syscall::finish(context, next);
            runtime.go(context, next, None, false);
        }
        _ => {
            let pc = context.next_pc;
            runtime.go(context, pc, None, false);
        }
    }
}
