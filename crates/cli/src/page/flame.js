"use strict";
// Call paths as boxes: a box is a node, as wide as its cost with all below it.
//
// Only what can be seen is made: boxes narrower than a pixel and a half, and those beyond a limit, are not. The tree by callee is made while
// it is drawn, as all of it would be far more than the tree by caller.

const ROW = 18, LEAST = 1.5, MOST_BOXES = 6000;

class Paths {
  constructor(facts) {
    this.facts = facts;
    const n = facts.parents.length;
    this.sums = Float64Array.from(facts.own);
    for (let i = n - 1; i >= 0; i--) if (facts.parents[i] >= 0) this.sums[facts.parents[i]] += this.sums[i];
    this.children = new Map();
    for (let i = 0; i < n; i++) {
      const list = this.children.get(facts.parents[i]);
      if (list) list.push(i); else this.children.set(facts.parents[i], [i]);
    }
    for (const list of this.children.values()) list.sort((a, b) => this.sums[b] - this.sums[a]);
    this.total = (this.children.get(-1) || []).reduce((sum, i) => sum + this.sums[i], 0);
    this.rest = facts.names.length - 1;
  }

  // A node that is drawn: function, cost, cost of its own, and how to get those below.
  caller(i) {
    const f = this.facts;
    return {
      fn: f.functions[i], sum: this.sums[i], own: f.own[i], times: f.counts[i], inlined: !!f.inlined[i], up: null,
      below: () => (this.children.get(i) || []).map((c) => this.caller(c)),
    };
  }

  // The same from functions with costs of their own to their callers: `items` are pairs of a node and a cost.
  callee(fn, items) {
    const sum = items.reduce((all, item) => all + item[1], 0);
    return {
      fn, sum, own: 0, times: 0, inlined: false, up: null,
      below: () => {
        const above = items.map(([i, cost]) => [this.facts.parents[i], cost]).filter((item) => item[0] >= 0);
        return this.group(above);
      },
    };
  }

  group(items) {
    const by = new Map();
    for (const item of items) {
      const fn = this.facts.functions[item[0]];
      const list = by.get(fn);
      if (list) list.push(item); else by.set(fn, [item]);
    }
    return [...by].map(([fn, list]) => this.callee(fn, list)).sort((a, b) => b.sum - a.sum);
  }

  root(view) {
    const below = view === "callers"
      ? () => this.group([...this.facts.own.keys()].filter((i) => this.facts.own[i] > 0).map((i) => [i, this.facts.own[i]]))
      : () => (this.children.get(-1) || []).map((i) => this.caller(i));
    return { fn: -1, sum: this.total, own: 0, times: 0, inlined: false, up: null, below };
  }

  // The cost of all paths with a function that matches, each once.
  matched(is) {
    const f = this.facts, inside = new Uint8Array(f.parents.length);
    let sum = 0;
    for (let i = 0; i < f.parents.length; i++) {
      const above = f.parents[i] >= 0 && inside[f.parents[i]];
      const here = is(f.functions[i]);
      if (here && !above) sum += this.sums[i];
      inside[i] = here || above ? 1 : 0;
    }
    return sum;
  }
}

class Flame {
  constructor(paths, graph, told) {
    this.paths = paths;
    this.graph = graph;
    this.told = told;
    this.is = () => false;
    this.show("icicle");
  }

  show(view) {
    this.view = view;
    this.root = this.zoomed = this.paths.root(view);
    this.draw();
  }

  zoom(node) {
    this.zoomed = node;
    this.draw();
  }

  below(node) {
    if (!node.kept) {
      node.kept = node.below();
      for (const child of node.kept) child.up = node;
    }
    return node.kept;
  }

  name(node) {
    return node.fn < 0 ? "all" : this.paths.facts.names[node.fn];
  }

  draw() {
    const width = this.graph.clientWidth || 800;
    const boxes = [];
    const above = [];
    for (let up = this.zoomed.up; up; up = up.up) above.unshift(up);
    above.forEach((node, row) => boxes.push({ node, row, x: 0, w: width, above: true }));
    let level = [{ node: this.zoomed, x: 0, w: width }];
    let row = above.length, left = 0;
    while (level.length) {
      const next = [];
      for (const { node, x, w } of level) {
        boxes.push({ node, row, x, w, above: false });
        let at = x;
        for (const child of this.below(node)) {
          const part = node.sum > 0 ? (w * child.sum) / node.sum : 0;
          if (part < LEAST) { left++; continue; }
          if (boxes.length + next.length >= MOST_BOXES) { left++; continue; }
          next.push({ node: child, x: at, w: part });
          at += part;
        }
      }
      level = next;
      row++;
    }
    const height = row * ROW;
    const made = document.createDocumentFragment();
    for (const box of boxes) made.append(this.box(box, height));
    this.graph.style.height = height + 1 + "px";
    this.graph.replaceChildren(made);
    this.told(left);
  }

  box({ node, row, x, w, above }, height) {
    const box = document.createElement("div");
    const rest = node.fn === this.paths.rest;
    box.className = "box" + (w < 12 ? " thin" : "") + (above ? " above" : "") + (node.inlined ? " inlined" : "") +
      (rest ? " rest" : "") + (node.fn >= 0 && this.is(node.fn) ? " matched" : "");
    box.style.left = x + "px";
    box.style.width = Math.max(w, 1) + "px";
    box.style.top = (this.view === "flame" ? height - (row + 1) * ROW : row * ROW) + "px";
    box.style.setProperty("--hue", this.hue(node.fn));
    if (w >= 24) box.textContent = this.name(node);
    box.node = node;
    return box;
  }

  // Functions of one module are of one colour, each a little different.
  hue(fn) {
    if (fn < 0) return 210;
    const hash = (text) => {
      let h = 7;
      for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) >>> 0;
      return h;
    };
    const { modules, names } = this.paths.facts;
    return (hash(modules[fn]) % 12) * 30 + (hash(names[fn]) % 26);
  }
}
