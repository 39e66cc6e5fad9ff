//! Counts that are made consistent: what enters a node leaves it, at the least cost of changes.
//!
//! # Problem
//! Estimates of a branch and of the code after it come from different samples. They contradict each other, and an optimiser that
//! believes both lays code out badly.
//!
//! # Strategy
//! *Minimum-cost flow* (Levin, Newman and Haber 2008; He et al., *Profile Inference Revisited*, POPL 2022). Counts are a flow on the
//! arcs of a graph that need not balance. Raising or lowering an arc's count costs its own price for each unit. The excess
//! of nodes is sent to the nodes that lack it, along cheapest ways through these changes.
//!
//! Primal-dual: shortest distances by Dijkstra's algorithm with potentials, then a maximum flow (Dinic 1970) along arcs of the shortest ways only. Prices are
//! small whole numbers, so there are few distances, and so few rounds.
//!
//! # Why it ends, and is right
//! All prices are positive or 0, so a flow without changes is optimal for its own excess, and each round keeps that. To lower all counts to 0 balances each graph, so there
//! always is a solution. Work is bounded: beyond the bound there is none, and the caller keeps what it has.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Prices of a unit of change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Price {
    /// Price of raising a count by one.
    pub raise: u32,
    /// Price of lowering it by one.
    pub lower: u32,
}

/// A graph with a count on each arc.
#[derive(Clone, Debug, Default)]
pub struct Balance {
    nodes: usize,
    arcs: Vec<(usize, usize, u64, Price)>,
}

/// Number of an arc.
pub type ArcNumber = usize;

/// A residual arc. Its reverse is the one of the number beside it.
#[derive(Clone, Copy, Debug)]
struct Residual {
    to: usize,
    room: u64,
    price: i64,
}

/// Reasons why a graph has no consistent counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unsolved {
    /// It takes more steps than were allowed.
    Work,
    /// A count is too large to compute with.
    Count,
}

/// No count is larger: sums of all fit.
const MOST: u64 = 1 << 48;

impl Balance {
    /// A graph of so many nodes.
    pub const fn new(nodes: usize) -> Self {
        Self {
            nodes,
            arcs: Vec::new(),
        }
    }

    /// Adds an arc with its count. A graph with a count beyond 2^48 has no solution.
    pub fn arc(&mut self, from: usize, to: usize, count: u64, price: Price) -> ArcNumber {
        debug_assert!(from < self.nodes && to < self.nodes, "nodes of the graph");
        self.arcs.push((from, to, count, price));
        self.arcs.len() - 1
    }

    /// Returns the count of each arc, so that at each node as much leaves as enters.
    ///
    /// # Errors
    /// That takes more than `work` steps, or counts are too large.
    pub fn solve(&self, work: u64) -> Result<Vec<u64>, Unsolved> {
        if self.arcs.iter().any(|(_, _, count, _)| *count > MOST) {
            return Err(Unsolved::Count);
        }
        let (source, sink) = (self.nodes, self.nodes + 1);
        let mut graph = Graph::new(self.nodes + 2, work);
        let mut excess = vec![0_i128; self.nodes];
        for &(from, to, count, price) in &self.arcs {
            graph.add(from, to, u64::MAX, price.raise);
            graph.add(to, from, count, price.lower);
            excess[to] += i128::from(count);
            excess[from] -= i128::from(count);
        }
        for (node, excess) in excess.into_iter().enumerate() {
            let room = u64::try_from(excess.unsigned_abs()).unwrap_or(u64::MAX);
            match excess {
                1.. => graph.add(source, node, room, 0),
                0 => {}
                _ => graph.add(node, sink, room, 0),
            }
        }
        graph.send(source, sink).ok_or(Unsolved::Work)?;
        let changed = self.arcs.iter().enumerate().map(|(n, &(_, _, count, _))| {
            // What was sent along an arc is the room of its reverse.
            let raised = graph.arcs[4 * n + 1].room;
            let lowered = graph.arcs[4 * n + 3].room;
            count.saturating_add(raised).saturating_sub(lowered)
        });
        let counts: Vec<u64> = changed.collect();
        if self.is_consistent(&counts) {
            Ok(counts)
        } else {
            Err(Unsolved::Count)
        }
    }

    /// Returns true if at each node as much leaves as enters.
    fn is_consistent(&self, counts: &[u64]) -> bool {
        let mut excess = vec![0_i128; self.nodes];
        for (&(from, to, ..), &count) in self.arcs.iter().zip(counts) {
            excess[to] += i128::from(count);
            excess[from] -= i128::from(count);
        }
        excess.iter().all(|excess| *excess == 0)
    }
}

/// Changes that are still possible.
struct Graph {
    arcs: Vec<Residual>,
    at: Vec<Vec<usize>>,
    potential: Vec<i64>,
    level: Vec<u32>,
    next: Vec<usize>,
    work: u64,
}

const FAR: i64 = i64::MAX;

impl Graph {
    fn new(nodes: usize, work: u64) -> Self {
        Self {
            arcs: Vec::new(),
            at: vec![Vec::new(); nodes],
            potential: vec![0; nodes],
            level: vec![0; nodes],
            next: vec![0; nodes],
            work,
        }
    }

    fn add(&mut self, from: usize, to: usize, room: u64, price: u32) {
        let price = i64::from(price);
        self.at[from].push(self.arcs.len());
        self.arcs.push(Residual { to, room, price });
        self.at[to].push(self.arcs.len());
        self.arcs.push(Residual {
            to: from,
            room: 0,
            price: -price,
        });
    }

    /// Sends all that the source has. `None`: the work is used up.
    fn send(&mut self, source: usize, sink: usize) -> Option<()> {
        while self.distances(source, sink)? {
            while self.levels(source, sink)? {
                self.next.fill(0);
                while self.one_way(source, sink)? {}
            }
        }
        Some(())
    }

    fn spend(&mut self, steps: usize) -> Option<()> {
        self.work = self.work.checked_sub(steps as u64)?;
        Some(())
    }

    /// Price of an arc beyond the shortest way.
    fn reduced(&self, from: usize, arc: usize) -> i64 {
        let Residual { to, price, .. } = self.arcs[arc];
        price + self.potential[from] - self.potential[to]
    }

    /// Finds shortest distances, and adds them to the potentials. False where the sink is out of reach.
    fn distances(&mut self, source: usize, sink: usize) -> Option<bool> {
        let mut distance = vec![FAR; self.at.len()];
        distance[source] = 0;
        let mut heap = BinaryHeap::from([(Reverse(0), source)]);
        while let Some((Reverse(so_far), node)) = heap.pop() {
            if so_far > distance[node] {
                continue;
            }
            self.spend(self.at[node].len() + 1)?;
            for &arc in &self.at[node] {
                let Residual { to, room, .. } = self.arcs[arc];
                let there = so_far + self.reduced(node, arc);
                if room > 0 && there < distance[to] {
                    distance[to] = there;
                    heap.push((Reverse(there), to));
                }
            }
        }
        let reached = distance[sink] < FAR;
        // Those farther than the sink need no more than its distance.
        let most = distance[sink];
        for (potential, distance) in self.potential.iter_mut().zip(distance) {
            *potential += if reached { distance.min(most) } else { 0 };
        }
        Some(reached)
    }

    /// Numbers nodes by their arcs from the source, along shortest ways. False where the sink is out of reach.
    fn levels(&mut self, source: usize, sink: usize) -> Option<bool> {
        self.level.fill(u32::MAX);
        self.level[source] = 0;
        let mut open = VecDeque::from([source]);
        while let Some(node) = open.pop_front() {
            self.spend(self.at[node].len() + 1)?;
            for n in 0..self.at[node].len() {
                let arc = self.at[node][n];
                let Residual { to, room, .. } = self.arcs[arc];
                if room > 0 && self.level[to] == u32::MAX && self.reduced(node, arc) == 0 {
                    self.level[to] = self.level[node] + 1;
                    open.push_back(to);
                }
            }
        }
        Some(self.level[sink] != u32::MAX)
    }

    /// Sends as much as possible along one shortest way. False where there is none any more.
    fn one_way(&mut self, source: usize, sink: usize) -> Option<bool> {
        let mut way: Vec<usize> = Vec::new();
        let mut node = source;
        while node != sink {
            self.spend(1)?;
            match self.at[node].get(self.next[node]).copied() {
                Some(arc) => {
                    let Residual { to, room, .. } = self.arcs[arc];
                    let is_on = self.level[to] == self.level[node].saturating_add(1);
                    if room > 0 && is_on && self.reduced(node, arc) == 0 {
                        way.push(arc);
                        node = to;
                    } else {
                        self.next[node] += 1;
                    }
                }
                None => {
                    // A dead end.
                    let Some(back) = way.pop() else {
                        return Some(false);
                    };
                    node = self.arcs[back ^ 1].to;
                    self.next[node] += 1;
                }
            }
        }
        self.spend(way.len())?;
        let least = way.iter().map(|arc| self.arcs[*arc].room).min();
        let sent = least.unwrap_or(0);
        for arc in way {
            self.arcs[arc].room -= sent;
            let back = &mut self.arcs[arc ^ 1];
            back.room = back.room.saturating_add(sent);
        }
        Some(sent > 0)
    }
}
