//! Fragments whose app code may have changed: they are compared, and revived if it has not.
//!
//! # Problem
//! When a program stores to a page with code, unmaps it, or changes its protection, all fragments
//! made from it are in doubt. Most of the code is usually unchanged. A program that generates code
//! does this all the time.
//!
//! # Strategy
//! A fragment in doubt becomes *suspect*: it is cut off as if it were retired, by single stores, and
//! put in the list of suspects of its address. The code it was made from is kept. When control
//! comes to the address again, the dispatcher compares ([`Cache::revive`]). If nothing has
//! changed the fragment is live again, and links to it are made again as they are used. If not,
//! another is made. Of suspects of one address the youngest [`MOST`] are kept, as programs switch
//! back and forth between versions of their code.
//!
//! Fragments with code in several pieces are of files, which change as a whole: they are retired.
//!
//! # Cost
//! Each page has a list of the fragments that became live there since the list was walked last, each
//! fragment a list of the exits linked to it. So a change costs what was executed since the last.
//!
//! # Invariant
//! A live fragment is in the lists of all its pages. A list may name a fragment that is not live, or
//! name one twice.
#![allow(unsafe_code)] // reason: rewrites machine code, reads the app's.

use alloc::vec::Vec;
use core::arch::asm;

use super::entry::retired_entry;
use super::table::Table;
use super::{Cache, Fragment, FragmentState, UNLINKED};
use crate::base::address::Range;
use crate::base::address::{AppPc, CachePc};
use crate::base::emit::Code;
use crate::base::ids::FragmentId;
use crate::base::prefix::Prefix;
use crate::cache::entry::tag_check;
use crate::crossing::arch::is_same;
use crate::memory::pages::{PAGE, page_of, whole};

/// Value in [`Index::heads`]: a list without nodes.
const EMPTIED: u32 = UNLINKED - 1;
/// Suspect fragments of one address.
const MOST: usize = 4;

#[derive(Clone, Copy)]
struct Node {
    fragment: FragmentId,
    next: u32,
}

/// Index from pages to fragments, and from addresses to suspects.
pub(super) struct Index {
    /// First node of a page by its address, or [`UNLINKED`].
    heads: Table,
    /// Pages that ever had a node.
    pages: Vec<u64>,
    nodes: Vec<Node>,
    /// First of the nodes that are not in use.
    free: u32,
    /// The youngest suspect, by address.
    suspects: Table<FragmentId>,
    /// A fragment of one instruction alone, by address.
    singles: Table<FragmentId>,
    /// A fragment of a few instructions, which is never linked, by size and address.
    parts: Vec<Table<FragmentId>>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            heads: Table::new(),
            pages: Vec::new(),
            nodes: Vec::new(),
            free: UNLINKED,
            suspects: Table::new(),
            singles: Table::new(),
            parts: Vec::new(),
        }
    }
}

impl Index {
    fn lists(&self, page: u64, fragment: FragmentId) -> bool {
        let head = self.heads.get(AppPc(page)).unwrap_or(UNLINKED);
        let mut node = self.nodes.get(head as usize);
        while let Some(n) = node {
            if n.fragment == fragment {
                return true;
            }
            node = self.nodes.get(n.next as usize);
        }
        false
    }

    /// Takes note that a fragment with code in `pages` is live.
    pub(super) fn add(&mut self, fragment: FragmentId, pages: &[u64]) {
        for &page in pages {
            let head = self.heads.get(AppPc(page));
            if head.is_none() {
                self.pages.push(page);
            }
            // A list that was walked is empty, and its page known.
            let next = head.filter(|&n| n != EMPTIED).unwrap_or(UNLINKED);
            let node = Node { fragment, next };
            let at = match self.nodes.get(self.free as usize).copied() {
                Some(free) => {
                    let at = core::mem::replace(&mut self.free, free.next);
                    self.nodes[at as usize] = node;
                    at
                }
                None => {
                    self.nodes.push(node);
                    self.nodes.len() as u32 - 1
                }
            };
            self.heads.insert(AppPc(page), at);
        }
    }

    /// Forgets what no table leads to: suspects, single fragments and parts.
    pub(super) fn forget_unlisted(&mut self) {
        self.suspects = Table::new();
        self.singles = Table::new();
        self.parts = Vec::new();
    }

    /// Empties a page's list into `out`.
    fn take(&mut self, page: u64, out: &mut Vec<FragmentId>) {
        let Some(mut at) = self.heads.get(AppPc(page)).filter(|&n| n != EMPTIED) else {
            return;
        };
        self.heads.insert(AppPc(page), EMPTIED);
        while at != UNLINKED {
            let node = &mut self.nodes[at as usize];
            out.push(node.fragment);
            let next = core::mem::replace(&mut node.next, self.free);
            self.free = core::mem::replace(&mut at, next);
        }
    }

    /// Takes all fragments out of the lists of pages that meet `range`. The lists are empty afterwards.
    fn take_range(&mut self, range: Range) -> Vec<FragmentId> {
        let mut found = Vec::new();
        let range = whole(range);
        if (range.end - range.start) / PAGE <= self.pages.len() as u64 {
            let mut page = range.start;
            while page < range.end {
                self.take(page, &mut found);
                page += PAGE;
            }
        } else {
            for n in 0..self.pages.len() {
                let page = self.pages[n];
                if range.holds(AppPc(page)) {
                    self.take(page, &mut found);
                }
            }
        }
        found
    }
}

pub(super) fn checked_entry_of(app: AppPc) -> u64 {
    let mut buffer = [0; 64];
    tag_check(&mut Code::new(CachePc(0), &mut buffer), app);
    buffer
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

impl Cache {
    /// Replaces the first eight bytes of a fragment's checked entry, if it has one.
    pub(super) fn lead_entry(fragment: &Fragment, bytes: u64) {
        if let Some(at) = fragment.checked {
            // SAFETY: a checked entry is aligned to eight bytes and starts with an instruction of
            // ten, of which nobody is in the middle.
            unsafe {
                asm!("mov qword ptr [{}], {}", in(reg) at.0, in(reg) bytes, options(nostack, preserves_flags));
            }
        }
    }

    pub(super) fn cut_off(&mut self, id: FragmentId) {
        let fragment = &mut self.fragments[id.index()];
        Self::lead_entry(fragment, retired_entry());
        self.table.remove(fragment.key());
        let mut link = core::mem::replace(&mut fragment.first_link, UNLINKED);
        while let Some(exit) = self.exits.get_mut(link as usize) {
            exit.to = FragmentId::NONE;
            Self::patch(exit.patch, exit.stub);
            link = core::mem::replace(&mut exit.next_link, UNLINKED);
        }
    }

    pub(super) fn bury(&mut self, id: FragmentId) {
        self.give_counter_back(id);
        let fragment = &mut self.fragments[id.index()];
        fragment.state = FragmentState::Retired;
        self.dead += fragment.end.0 - fragment.entry.0;
    }

    /// Puts a live fragment in doubt.
    pub fn doubt(&mut self, id: FragmentId) {
        self.cut_off(id);
        let fragment = self.fragments[id.index()];
        if fragment.source.is_none() || fragment.prefix != Prefix::NONE {
            return self.bury(id);
        }
        let before = self.index.suspects.get(fragment.app);
        self.index.suspects.insert(fragment.app, id);
        let fragment = &mut self.fragments[id.index()];
        fragment.state = FragmentState::Suspect;
        fragment.older = before.unwrap_or(FragmentId::NONE);
    }

    /// Puts the fragments in doubt that have code in the pages that meet `range`. Returns true if
    /// there was one.
    pub fn doubt_range(&mut self, range: Range) -> bool {
        self.heads.forget_recorded();
        let (first, second) = self.in_both(|cache| cache.doubt_in_variant(range));
        first || second == Some(true)
    }

    fn doubt_in_variant(&mut self, range: Range) -> bool {
        let mut any = false;
        for id in self.index.take_range(range) {
            if self.fragments[id.index()].state == FragmentState::Live {
                any = true;
                self.doubt(id);
            }
        }
        any
    }

    /// Returns whether the code a fragment was made from is what is in the app's memory now. It is not where nothing can be read: other
    /// threads may have taken the page away.
    pub fn is_current(&self, id: FragmentId) -> bool {
        let fragment = &self.fragments[id.index()];
        let Some(source) = fragment.source else {
            return false;
        };
        let len = (fragment.span.end - fragment.span.start) as usize;
        let kept = &self.sources[source as usize..source as usize + len];
        // SAFETY: what is kept is there. Other threads may write to the code, and then either answer is right.
        unsafe { is_same(fragment.span.start, kept.as_ptr(), len as u64) == 1 }
    }

    /// The code that the suspect fragments of an address were made from, if there are any.
    pub fn suspects_of(&self, app: AppPc) -> Option<Range> {
        let mut id = self.index.suspects.get(app)?;
        let mut end = app.0;
        while let Some(fragment) = self.fragments.get(id.index()) {
            end = end.max(fragment.span.end);
            id = fragment.older;
        }
        Some(Range { start: app.0, end })
    }

    /// Makes the suspect fragment of `app` live again that was made from the code that is there now,
    /// and is guarded or not as said.
    pub fn revive(&mut self, app: AppPc, guarded: bool) -> Option<FragmentId> {
        let mut id = self.index.suspects.get(app)?;
        let mut younger = None;
        let mut passed = 0;
        while let Some(&fragment) = self.fragments.get(id.index()) {
            if fragment.guarded == guarded && self.is_current(id) {
                self.unlist(app, younger, fragment.older);
                let fragment = &mut self.fragments[id.index()];
                fragment.state = FragmentState::Live;
                Self::lead_entry(fragment, checked_entry_of(app));
                let (first, last) = (page_of(fragment.span.start), page_of(fragment.span.end - 1));
                self.table.insert(app, id);
                for page in [Some(first), Some(last).filter(|&p| p != first)] {
                    // With two pages, only one of the lists may have been walked.
                    if let Some(page) = page
                        && (first == last || !self.index.lists(page, id))
                    {
                        self.index.add(id, &[page]);
                    }
                }
                return Some(id);
            }
            passed += 1;
            // What is left is found again only after as many others have been made.
            if passed >= MOST || fragment.guarded != guarded {
                self.unlist(app, younger, fragment.older);
                self.bury(id);
            } else {
                younger = Some(id);
            }
            id = fragment.older;
        }
        None
    }

    /// Takes a suspect out of the list of its address.
    fn unlist(&mut self, app: AppPc, younger: Option<FragmentId>, older: FragmentId) {
        match younger {
            Some(younger) => self.fragments[younger.index()].older = older,
            None if older == FragmentId::NONE => self.index.suspects.remove(app),
            None => self.index.suspects.insert(app, older),
        }
    }

    /// The code that the fragment of the one instruction at `app` was made from, if there is one.
    pub fn span_of_single(&self, app: AppPc) -> Option<Range> {
        let id = self.index.singles.get(app)?;
        Some(self.fragments[id.index()].span)
    }

    /// A fragment of the one instruction at `app`, if there is one that is not outdated.
    pub fn single(&self, app: AppPc) -> Option<FragmentId> {
        self.index
            .singles
            .get(app)
            .filter(|&id| self.is_current(id))
    }

    /// The part of a size that begins at `app`.
    pub fn part(&self, app: AppPc, size: u8) -> Option<FragmentId> {
        self.index.parts.get(usize::from(size))?.get(app)
    }

    /// Remembers a part.
    pub fn keep_part(&mut self, app: AppPc, size: u8, id: FragmentId) {
        let parts = &mut self.index.parts;
        while parts.len() <= usize::from(size) {
            parts.push(Table::small());
        }
        parts[usize::from(size)].insert(app, id);
    }

    /// The code of the parts that begin at `app` has changed.
    pub fn drop_parts(&mut self, app: AppPc) {
        for n in 0..self.index.parts.len() {
            if let Some(id) = self.index.parts[n].get(app) {
                self.index.parts[n].remove(app);
                self.bury(id);
            }
        }
    }

    /// The code that a fragment was made from, if it was kept.
    pub fn source_of(&self, fragment: &Fragment) -> Option<&[u8]> {
        let start = fragment.source? as usize;
        let len = (fragment.span.end - fragment.span.start) as usize;
        self.sources.get(start..start + len)
    }

    /// Remembers a fragment of one instruction.
    pub fn keep_single(&mut self, app: AppPc, id: FragmentId) {
        if self.fragments[id.index()].prefix != Prefix::NONE {
            return;
        }
        if let Some(before) = self.index.singles.get(app) {
            self.bury(before);
        }
        self.index.singles.insert(app, id);
    }
}
