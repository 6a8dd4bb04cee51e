// The script of a report: the reader's theme, charts, flame graphs, the filter of rows. It reads the element #data and loads nothing.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const ink = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const make = (name, more = {}, ...inner) => {
    const element = Object.assign(document.createElement(name), more);
    element.append(...inner);
    return element;
  };

  // Figures as people read them.
  const digits = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    const places = size === 0 || size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
    return value.toLocaleString("en-US", { maximumFractionDigits: places });
  };
  const compact = (value) => {
    if (value === null) return "";
    const size = Math.abs(value);
    for (const [unit, from] of [["G", 1e9], ["M", 1e6], ["k", 1e4]]) {
      if (size >= from) return `${Number((value / (unit === "k" ? 1e3 : from)).toPrecision(4))}${unit}`;
    }
    return String(Number(value.toPrecision(4)));
  };

  // Charts.
  const drawn = [];
  const tables = (lines) =>
    uPlot.join(lines.map((line) => [line.x, line.y]), lines.map((line) => line.y.map(() => 1)));

  const decades = (_, axis, min, max) => {
    const found = [];
    for (let at = Math.ceil(Math.log10(min) - 1e-9); at <= Math.log10(max) + 1e-9; at++) found.push(10 ** at);
    return found;
  };

  const options = (chart, width, floor) => {
    const rule = { stroke: ink("--rule"), width: 1 };
    const axis = { stroke: ink("--faint"), grid: rule, ticks: rule, font: "12px system-ui, sans-serif" };
    const steps = chart.steps && { paths: uPlot.paths.stepped({ align: 1 }) };
    const line = (it, n) => ({
      label: it.name,
      stroke: ink(`--s${n % 7}`),
      width: 1.6,
      dash: n >= 7 ? [6, 3] : undefined,
      spanGaps: !chart.steps,
      points: { show: false },
      value: (_, value) => (!chart.steps || value === null ? digits(value) : value <= floor ? "0 %" : `${digits(value)} %`),
      ...steps,
    });
    const across = chart.across.split(",")[0];
    return {
      width,
      height: width < 520 ? 205 : 245,
      legend: { live: true },
      cursor: { drag: { x: true, y: false }, ...(chart.group && { sync: { key: chart.group } }), focus: { prox: 24 } },
      focus: { alpha: 0.35 },
      scales: {
        x: chart.steps ? { time: false, distr: 3 } : { time: false },
        y: chart.steps ? { distr: 3, range: () => [floor, 100] } : { range: (_, min, max) => [Math.min(0, min), max > 0 ? max * 1.06 : 1] },
      },
      axes: [
        { ...axis, label: chart.across, labelSize: 18, labelGap: 0, labelFont: axis.font, values: (_, ticks) => ticks.map(compact), space: 60, size: 30, ...(chart.steps && { splits: decades }) },
        { ...axis, values: (_, ticks) => ticks.map(compact), size: 58, ...(chart.steps && { splits: decades }) },
      ],
      series: [{ label: across, value: (_, value) => digits(value) }, ...chart.lines.map(line)],
      hooks: { setScale: [(plot, key) => key === "x" && together(plot, chart.group)] },
    };
  };

  // Charts of one group show one part of the time.
  let isMoving = false;
  const together = (plot, group) => {
    if (!group || isMoving || !plot.isReady) return;
    isMoving = true;
    const { min, max } = plot.scales.x;
    for (const it of drawn) if (it.plot !== plot && it.chart.group === group) it.plot.setScale("x", { min, max });
    isMoving = false;
  };

  const ends = (plot) => [plot.data[0][0], plot.data[0][plot.data[0].length - 1]];
  const zoom = (plot, factor) => {
    const { min, max } = plot.scales.x;
    const [first, last] = ends(plot);
    const isLog = plot.scales.x.distr === 3;
    const to = isLog ? Math.log10 : (x) => x;
    const from = isLog ? (x) => 10 ** x : (x) => x;
    const at = plot.cursor.left >= 0 ? to(plot.posToVal(plot.cursor.left, "x")) : (to(min) + to(max)) / 2;
    const begin = at - (at - to(min)) * factor;
    const end = at + (to(max) - at) * factor;
    plot.setScale("x", { min: Math.max(first, from(begin)), max: Math.min(last, from(end)) });
  };
  const whole = (plot) => {
    const [min, max] = ends(plot);
    plot.setScale("x", { min, max });
  };
  const step = (plot, by) => {
    const moments = plot.data[0];
    const { min, max } = plot.scales.x;
    let at = plot.cursor.idx;
    if (at === null || at === undefined) at = moments.findIndex((x) => x >= min);
    else at = Math.min(moments.length - 1, Math.max(0, at + by));
    if (moments[at] < min || moments[at] > max) return;
    plot.setCursor({ left: plot.valToPos(moments[at], "x"), top: plot.bbox.height / devicePixelRatio / 2 });
  };

  const chartIn = (figure, chart) => {
    const place = make("div", { className: "plot" });
    const entry = { chart, figure, place, plot: null };
    const button = (text, title, act) => make("button", { type: "button", textContent: text, title, ariaLabel: title, onclick: act });
    figure.querySelector("figcaption").append(
      make("span", { className: "tools" },
        button("+", "Zoom in", () => zoom(entry.plot, 0.5)),
        button("−", "Zoom out", () => zoom(entry.plot, 2)),
        button("All", "Show all of it", () => whole(entry.plot))));
    figure.append(place);
    figure.tabIndex = 0;
    figure.setAttribute("role", "group");
    figure.setAttribute("aria-label", `${chart.caption}. Arrow keys move through the values, plus and minus zoom, 0 shows all.`);
    figure.addEventListener("keydown", (event) => {
      if (event.target !== figure || event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };
      if (event.key in moves) step(entry.plot, moves[event.key]);
      else if (event.key === "+" || event.key === "=") zoom(entry.plot, 0.5);
      else if (event.key === "-") zoom(entry.plot, 2);
      else if (event.key === "0" || event.key === "Escape") whole(entry.plot);
      else return;
      event.preventDefault();
    });
    drawn.push(entry);
    draw(entry);
    return entry;
  };

  // Paper is narrower than a screen; so wide are A4 and Letter within their margins, CSS pixels.
  const PAPER = 680;
  let isPaper = false;
  const draw = (entry) => {
    const { chart, place } = entry;
    const shown = entry.plot && { ...entry.plot.scales.x };
    entry.plot?.destroy();
    const width = isPaper ? PAPER : Math.max(240, place.clientWidth);
    let aligned = tables(chart.lines);
    // A logarithmic scale has no 0: it stands at its lower end.
    if (chart.steps) {
      const least = Math.min(...chart.lines.flatMap((line) => line.y).filter((y) => y > 0));
      entry.floor = 10 ** (Math.ceil(Math.log10(least)) - 1);
      aligned = [aligned[0], ...aligned.slice(1).map((ys) => ys.map((y) => (y === 0 ? entry.floor : y)))];
    }
    entry.plot = new uPlot(options(chart, width, entry.floor), aligned, place);
    entry.plot.isReady = true;
    if (shown && shown.min !== null) entry.plot.setScale("x", { min: shown.min, max: shown.max });
  };

  for (const figure of document.querySelectorAll("[data-chart]")) {
    const chart = data.charts[figure.dataset.chart];
    if (chart.lines.some((line) => line.x.length > 1)) chartIn(figure, chart);
    else figure.append(make("p", { className: "note", textContent: "There are too few moments to draw." }));
  }

  // Counters that the reader chooses.
  for (const place of document.querySelectorAll("[data-counters]")) {
    const { across, runs } = data.counters[place.dataset.counters];
    const select = place.querySelector("select");
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.values)))].sort();
    select.append(...names.map((name) => make("option", { value: name, textContent: name })));
    const isLevel = (name) => {
      const own = name.replace(/^node\d+_/, "");
      return own.endsWith("_in_flight") || (own.startsWith("nr_") && !/^nr_(dirtied|written|vmscan)/.test(own));
    };
    select.addEventListener("change", () => {
      const name = select.value;
      if (!name) return;
      const lines = runs.map((run) => ({ name: run.name, x: run.values[name] ? run.x : [], y: run.values[name] ?? [] }));
      const caption = isLevel(name) ? name : `${name}, 1/s`;
      const figure = make("figure", { className: "chart" }, make("figcaption", { textContent: caption }));
      place.append(figure);
      const entry = chartIn(figure, { caption, across, lines, steps: false, group: "time" });
      const first = drawn.find((it) => it !== entry && it.chart.group === "time");
      if (first) entry.plot.setScale("x", { min: first.plot.scales.x.min, max: first.plot.scales.x.max });
      figure.querySelector(".tools").append(
        make("button", { type: "button", textContent: "×", title: "Remove this chart", ariaLabel: "Remove this chart",
          onclick: () => { entry.plot.destroy(); drawn.splice(drawn.indexOf(entry), 1); figure.remove(); select.focus(); } }));
      select.value = "";
      figure.focus();
    });
  }

  // Flame graphs: [name, ns, calls], a row for each depth.
  const time = (ns) => (ns >= 1e9 ? `${digits(ns / 1e9)} s` : ns >= 1e6 ? `${digits(ns / 1e6)} ms` : `${digits(ns / 1e3)} us`);
  const color = (name) => {
    let hash = 7;
    for (const c of name) hash = (hash * 31 + c.codePointAt(0)) >>> 0;
    return `hsl(${18 + (hash % 38)} ${72 + ((hash >> 8) % 18)}% ${66 + ((hash >> 16) % 12)}%)`;
  };
  for (const place of document.querySelectorAll("[data-flames]")) {
    const trees = data.flames[place.dataset.flames];
    const select = make("select", { ariaLabel: "Column" }, ...trees.map((tree, n) => make("option", { value: n, textContent: tree[0] })));
    const search = make("input", { type: "search", placeholder: "function", ariaLabel: "Mark functions with" });
    const up = make("button", { type: "button", textContent: "Zoom out" });
    const flame = make("div", { className: "flame" });
    const say = make("div", { className: "flame-say", ariaLive: "polite" });
    place.append(make("div", { className: "flame-tools" }, select, make("label", {}, "Mark ", search), up), flame, say);
    let path = [trees[0]];
    const HEIGHT = 19;
    const show = () => {
      const whole = path[0];
      const word = search.value.toLowerCase();
      flame.replaceChildren();
      let depths = 0, marked = 0;
      const put = (call, depth, left, width, isMarked) => {
        const [name, ns, calls] = call;
        const hit = word && name.toLowerCase().includes(word);
        if (hit && !isMarked && depth >= path.length - 1) marked += ns;
        depths = Math.max(depths, depth + 1);
        const share = (100 * ns) / whole[1];
        const text = `${name}: ${time(ns)}, ${digits(share)} %`;
        const button = make("button", { type: "button", textContent: width > 2.5 ? name : "", title: text, ariaLabel: text });
        button.style.left = `${left}%`;
        button.style.width = `${width}%`;
        button.style.top = `${depth * HEIGHT}px`;
        button.style.setProperty("--c", hit ? "#c9a6ff" : color(name));
        if (word && !hit) button.classList.add("dim");
        button.onmouseenter = button.onfocus = () => { say.textContent = text; };
        button.onclick = () => {
          const at = path.indexOf(call);
          path = at >= 0 ? path.slice(0, at + 1) : [...path, ...steps(path[path.length - 1], call)];
          show();
          flame.querySelectorAll("button")[path.length - 1]?.focus();
        };
        flame.append(button);
        if (depth < path.length - 1) return;
        let from = left;
        for (const inner of calls) {
          const part = (width * inner[1]) / ns;
          if (part > 0.12) put(inner, depth + 1, from, part, isMarked || hit);
          from += part;
        }
      };
      path.forEach((call, depth) => put(call, depth, 0, 100, false));
      flame.style.height = `${depths * HEIGHT}px`;
      up.disabled = path.length < 2;
      say.textContent = word ? `${digits((100 * marked) / path[path.length - 1][1])} % of what is shown is in functions with “${search.value}”.`
        : `${path[path.length - 1][0]}: ${time(path[path.length - 1][1])}`;
    };
    const steps = (from, to) => {
      for (const inner of from[2]) {
        if (inner === to) return [inner];
        const more = steps(inner, to);
        if (more.length) return [inner, ...more];
      }
      return [];
    };
    const out = () => { if (path.length > 1) { path = path.slice(0, -1); show(); } };
    select.onchange = () => { path = [trees[select.value]]; show(); };
    search.oninput = show;
    up.onclick = out;
    place.addEventListener("keydown", (event) => { if (event.key === "Escape" && event.target !== search) out(); });
    show();
  }

  // The filter of rows.
  const filter = document.getElementById("filter");
  filter?.addEventListener("input", () => {
    const word = filter.value.trim().toLowerCase();
    for (const body of document.querySelectorAll(".scroll tbody")) {
      let isShown = false, any = false;
      for (const row of body.rows) {
        if (row.classList.contains("group")) { row.hidden = false; continue; }
        // An interval or a published figure goes with the row above it.
        if (!row.classList.contains("faint")) isShown = !word || row.cells[0].textContent.toLowerCase().includes(word);
        row.hidden = !isShown;
        any ||= isShown;
      }
      body.hidden = !any;
    }
  });

  // Light, dark, or as the system has it.
  const button = document.getElementById("theme");
  const themes = ["system", "light", "dark"];
  let theme = "system";
  try { theme = localStorage.getItem("highwater-theme") ?? theme; } catch { /* A file may have no storage. */ }
  if (location.hash === "#light" || location.hash === "#dark") theme = location.hash.slice(1);
  const wear = (name) => {
    if (name === "system") delete root.dataset.theme;
    else root.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    drawn.forEach(draw);
  };
  button.onclick = () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.setItem("highwater-theme", theme); } catch { /* As above. */ }
    wear(theme);
  };
  if (!themes.includes(theme)) theme = "system";
  wear(theme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(draw));

  // The heading of a table that fits stays in sight; one that does not fit is moved sideways in its own frame, which says so.
  const frames = [...document.querySelectorAll(".scroll, .picture")].map((frame) => {
    const more = make("p", { className: "note sideways", textContent: "There is more to the right: move it sideways.", hidden: true });
    frame.before(more);
    const edge = () => frame.classList.toggle("wide", frame.scrollLeft + frame.clientWidth < frame.scrollWidth - 1);
    frame.addEventListener("scroll", edge, { passive: true });
    return { frame, more, edge };
  });
  const fit = () => {
    const nav = document.querySelector("nav");
    root.style.setProperty("--nav", getComputedStyle(nav).position === "sticky" ? `${nav.offsetHeight}px` : "0px");
    for (const { frame, more, edge } of frames) {
      frame.classList.remove("fits");
      const isWide = frame.scrollWidth > frame.clientWidth;
      frame.classList.toggle("fits", !isWide && frame.classList.contains("scroll"));
      more.hidden = !isWide;
      edge();
    }
  };
  fit();
  document.querySelectorAll("details").forEach((it) => it.addEventListener("toggle", fit));

  // Width changes, and paper.
  let width = innerWidth, pending = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    cancelAnimationFrame(pending);
    pending = requestAnimationFrame(() => { fit(); drawn.forEach(draw); });
  });
  let before = null;
  addEventListener("beforeprint", () => {
    before = { theme, folded: [...document.querySelectorAll("main details:not([open])")] };
    before.folded.forEach((it) => { it.open = true; });
    root.dataset.theme = "light";
    isPaper = true;
    drawn.forEach(draw);
    // A table that is too wide even in small print is made smaller.
    root.classList.add("paper");
    for (const table of document.querySelectorAll(".scroll table")) {
      if (table.offsetWidth > PAPER) table.style.zoom = PAPER / table.offsetWidth;
    }
    root.classList.remove("paper");
  });
  addEventListener("afterprint", () => {
    if (!before) return;
    before.folded.forEach((it) => { it.open = false; });
    isPaper = false;
    for (const table of document.querySelectorAll(".scroll table")) table.style.zoom = "";
    wear(before.theme);
    before = null;
  });
})();
