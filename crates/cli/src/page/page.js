// Tables, search, code and the run. All text comes from the profiled program, so it is only ever set as text.

(() => {
  const FIRST = 15;
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const get = (id) => document.getElementById(id);
  const make = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const grouped = (n) => Math.round(n).toString().replace(/\B(?=(\d{3})+(?!\d))/g, " ");
  const percent = (part) => (100 * part).toFixed(2) + "%";
  const amount = (n, unit) => {
    if (unit !== "nanoseconds") return grouped(n) + " " + unit;
    return n >= 1e9 ? (n / 1e9).toFixed(2) + " s" : (n / 1e6).toFixed(2) + " ms";
  };

  // Search: one for the table and the graph.
  let query = "";
  const matches = (name, module) => query !== "" && (name + "\n" + module).toLowerCase().includes(query);

  // Functions.
  const functions = facts.functions.map((f, number) => ({ ...f, number, share: facts.total ? f.self / facts.total : 0 }));
  const heaviest = Math.max(1e-9, ...functions.slice(0, 9).map((f) => f.share));
  const codeOf = new Map(facts.code.map((c, i) => [c.function, i]));
  const has = (key) => functions.some((f) => f[key] !== undefined);
  const columns = [
    { key: "share", title: "self %", number: true, cell: (f, td) => { td.textContent = percent(f.share); td.classList.add("share"); td.style.setProperty("--part", percent(f.share / heaviest)); } },
    { key: "inclusive", title: "with callees %", number: true, cell: (f, td) => { td.textContent = f.inclusive === undefined ? "" : (facts.paths && facts.paths.folded ? "≥" : "") + percent(f.inclusive); } },
    { key: "name", title: "function", cell: nameCell },
    { key: "self", title: "self", number: true, cell: (f, td) => {
      td.textContent = facts.unit === "nanoseconds" ? amount(f.self, facts.unit) : grouped(f.self);
      if (f.low !== undefined) td.title = "95 % limits: " + grouped(f.low) + " to " + grouped(f.high);
    } },
    { key: "calls", title: "calls", number: true, wide: true, cell: (f, td) => { td.textContent = grouped(f.calls); } },
    { key: "source", title: "source", wide: true, cell: (f, td) => { td.textContent = f.source || ""; } },
    { key: "module", title: "module", cell: (f, td) => { td.textContent = f.module; } },
  ].filter((c) => c.key === "share" || has(c.key));
  let sorted = "share", ascending = false, shown = FIRST;

  function nameCell(f, td) {
    td.title = f.full || f.name;
    if (!codeOf.has(f.number)) { td.textContent = f.name; return; }
    const button = make("button", f.name);
    button.type = "button";
    button.title = td.title + " (show its code)";
    button.addEventListener("click", () => open(codeOf.get(f.number)));
    td.append(button);
  }

  const head = document.querySelector("#functions thead tr");
  for (const column of columns) {
    const th = make("th", column.title, (column.number ? "number " : "") + (column.wide ? "wide" : ""));
    th.tabIndex = 0;
    const sort = () => {
      ascending = sorted === column.key ? !ascending : !column.number;
      sorted = column.key;
      table();
    };
    th.addEventListener("click", sort);
    th.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    column.th = th;
    head.append(th);
  }

  function table() {
    for (const column of columns) {
      if (column.key === sorted) column.th.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      else column.th.removeAttribute("aria-sort");
    }
    const found = query === "" ? functions : functions.filter((f) => matches(f.full || f.name, f.module));
    const order = (a, b) => {
      const [x, y] = [a[sorted], b[sorted]];
      if (x === y) return a.number - b.number;
      if (x === undefined) return 1;
      if (y === undefined) return -1;
      return (x < y ? -1 : 1) * (ascending ? 1 : -1);
    };
    const rows = [...found].sort(order).slice(0, shown).map((f) => {
      const tr = make("tr");
      for (const column of columns) {
        const td = make("td", undefined, column.key + (column.number ? " number" : "") + (column.wide ? " wide" : ""));
        column.cell(f, td);
        tr.append(td);
      }
      return tr;
    });
    document.querySelector("#functions tbody").replaceChildren(...rows);
    const left = found.length - rows.length;
    const more = get("more-functions");
    more.hidden = left <= 0;
    more.textContent = "Show more";
    const all = facts.functions_in_all || functions.length;
    get("functions-note").textContent = " " + grouped(rows.length) + " of " + grouped(found.length) +
      (query === "" ? " functions" : " functions that match") +
      (all > functions.length ? "; the " + grouped(all - functions.length) + " lightest are not in this page" : "");
    return found;
  }
  get("more-functions").addEventListener("click", () => { shown = shown === FIRST ? 100 : shown * 4; table(); });

  // Call paths.
  let flame = null;
  if (facts.paths) {
    const unit = facts.paths.unit, paths = new Paths(facts.paths), graph = get("graph");
    const words = (node) => {
      const name = node.fn < 0 ? "all" : facts.paths.names[node.fn];
      const module = node.fn < 0 ? "" : facts.paths.modules[node.fn];
      return name + (node.inlined ? " (inlined)" : "") + (module ? " in " + module : "") + ": " + amount(node.sum, unit) + ", " +
        percent(node.sum / (paths.total || 1)) + (node.own ? "; itself " + percent(node.own / (paths.total || 1)) : "") +
        (node.times ? "; " + grouped(node.times) + " " + facts.paths.times : "");
    };
    const lost = [["truncated", "truncated"], ["broken", "broken"], ["folded", "calls without a path"]].filter(([key]) => facts.paths[key] > 0);
    const about = amount(paths.total, unit) + (facts.off_cpu ? " of waits" : " in all") + lost.map(([key, words]) => ", " + grouped(facts.paths[key]) + " " + words).join("");
    flame = new Flame(paths, graph, (left) => {
      get("paths-note").textContent = about + (left ? "; " + grouped(left) + " narrow boxes not drawn, zoom for these" : "");
    });
    const trail = () => {
      const nodes = [];
      for (let node = flame.zoomed; node; node = node.up) nodes.unshift(node);
      get("zoom-out").disabled = nodes.length < 2;
      const links = nodes.length < 2 ? [] : nodes.flatMap((node, n) => {
        const link = make("button", flame.name(node));
        link.type = "button";
        link.addEventListener("click", () => zoom(node));
        return n ? [document.createTextNode(" › "), link] : [link];
      });
      get("trail").replaceChildren(...links);
    };
    const zoom = (node) => { flame.zoom(node); trail(); };
    graph.addEventListener("click", (event) => { if (event.target.node) zoom(event.target.node); });
    graph.addEventListener("mousemove", (event) => {
      const node = event.target.node;
      get("hover").textContent = node ? words(node) : "";
      if (node && !event.target.title) event.target.title = words(node);
    });
    get("zoom-out").addEventListener("click", () => zoom(flame.root));
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") zoom(flame.root); });
    for (const button of document.querySelectorAll("[data-view]")) {
      button.addEventListener("click", () => {
        for (const other of document.querySelectorAll("[data-view]")) other.setAttribute("aria-pressed", String(other === button));
        flame.show(button.dataset.view);
        trail();
      });
    }
    let waiting = 0;
    window.addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => flame.draw()); });
    trail();
  } else {
    get("paths-there").hidden = true;
    get("paths-none").hidden = false;
    get("paths-none").textContent = "This profile has no call paths. Record some to see who called whom: trommel record -e context (exact) " +
      "or -e stack (samples), then trommel report --html.";
  }

  function search(text) {
    query = text.trim().toLowerCase();
    shown = FIRST;
    const found = table();
    const told = [];
    if (query !== "") {
      const self = found.reduce((sum, f) => sum + f.self, 0);
      told.push(grouped(found.length) + " functions, " + percent(self / (facts.total || 1)) + " of " + facts.unit);
    }
    if (flame) {
      const { names, modules } = facts.paths;
      const is = names.map((name, fn) => fn !== flame.paths.rest && matches(name, modules[fn]));
      flame.is = (fn) => is[fn];
      flame.draw();
      if (query !== "") told.push(percent(flame.paths.matched((fn) => is[fn]) / (flame.paths.total || 1)) + " on paths with one");
    }
    get("matched").textContent = told.join("; ");
  }
  get("search").addEventListener("input", (event) => search(event.target.value));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== get("search")) { event.preventDefault(); get("search").focus(); }
  });

  // Code. A listing is made when it is opened.
  const details = facts.code.map((code) => {
    const function_ = functions[code.function];
    const one = make("details");
    const title = make("summary", code.name || function_.name);
    title.append(make("span", "  " + percent(function_.share) + " of " + facts.unit + ", " + function_.module, "soft"));
    one.append(title);
    one.addEventListener("toggle", () => { if (one.open && one.children.length === 1) unfold(one, code); });
    return one;
  });
  get("code-list").append(...details);
  get("code-none").hidden = details.length > 0;
  if (details.length) details[0].open = true;
  function open(number) {
    details[number].open = true;
    details[number].scrollIntoView({ block: "start" });
  }

  // Begins with the hottest instruction, as the first ones are often executed once.
  function unfold(one, code) {
    const scroll = listing(code);
    one.append(scroll);
    const hottest = scroll.querySelector("[data-hottest]");
    if (hottest) scroll.scrollTop = hottest.offsetTop - scroll.clientHeight / 3;
  }

  function listing(code) {
    const scroll = make("div", undefined, "listing"), rows = make("table");
    const most = Math.max(0, ...code.lines.map((line) => line.share || 0));
    for (const line of code.lines) {
      if (line.source !== undefined) {
        const tr = make("tr", undefined, "source"), td = make("td", line.source);
        td.colSpan = 5;
        tr.append(td);
        rows.append(tr);
      }
      const tr = make("tr");
      if (line.cold !== undefined) {
        const td = make("td", "⋮ " + line.cold + " instructions not executed");
        td.colSpan = 5;
        tr.className = "cold";
        tr.append(td);
        rows.append(tr);
        continue;
      }
      const share = line.share || 0;
      if (share >= 0.05) tr.className = "hot";
      if (share > 0 && share === most && !rows.querySelector("[data-hottest]")) tr.dataset.hottest = "";
      const count = make("td", line.count === undefined ? "" : grouped(line.count), "number");
      const part = make("td", share ? percent(share) : "", "number heat");
      part.style.setProperty("--part", most ? (0.75 * share / most).toFixed(3) : 0);
      const notes = make("td", undefined, "notes");
      if (line.taken !== undefined) {
        const bias = make("span", undefined, "bias");
        bias.style.setProperty("--part", percent(line.taken));
        bias.title = "taken " + percent(line.taken);
        notes.append(bias);
      }
      notes.append(line.notes || "");
      if (line.notes) notes.title = line.notes;
      const text = make("td", line.text, "text");
      if (line.notes) text.title = line.notes;
      tr.append(count, part, make("td", line.at, "number soft"), text, notes);
      rows.append(tr);
    }
    scroll.append(rows);
    return scroll;
  }

  // The run.
  const run = document.querySelector("#run dl");
  for (const { name, text } of facts.run) run.append(make("dt", name), make("dd", text));
  get("command").textContent = facts.command || "Trommel profile";
  document.title = "Trommel: " + facts.command;
  const hottest = functions[0];
  get("summary").textContent = functions.length === 0
    ? "No functions are known: record branches and calls, or call paths."
    : amount(facts.total, facts.unit) + (facts.off_cpu ? " of waits (off-CPU) in " : " in ") + grouped(facts.functions_in_all || functions.length) + " functions; hottest " +
      hottest.name + " " + percent(hottest.share);
  table();
})();
