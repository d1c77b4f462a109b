"use strict";
(() => {
  // ---- data -----------------------------------------------------------------------------------------------------
  const data = JSON.parse(document.getElementById("data").textContent);
  const DASHES = ["", "6,3", "2,3", "9,3,2,3"];
  const SYMBOLS = ["circle", "square", "triangle", "diamond2", "cross", "star", "wye"];
  const hidden = new Set(); // runs switched off in the legend

  const styleOf = (run) => data.runs[run].style; // the same for runs that differ in nothing but the seed
  const colourOf = (run) => `var(--run-${styleOf(run) % 8})`;
  const dashOf = (run) => DASHES[styleOf(run) % DASHES.length];
  const symbolOf = (run) => SYMBOLS[styleOf(run) % SYMBOLS.length];

  // Untrusted text goes through here and then into text nodes only. Characters that cannot be seen, or that turn the text
  // around them, are written by name.
  const NAMES = new Map([["\u0000", "NUL"], ["\u0007", "BEL"], ["\u0008", "BS"], ["\r", "CR"], ["\u001b", "ESC"], ["\u007f", "DEL"],
    ["\u061c", "ALM"], ["\u200b", "ZWSP"], ["\u200e", "LRM"], ["\u200f", "RLM"], ["\u2028", "LS"], ["\u2029", "PS"], ["\u202a", "LRE"],
    ["\u202b", "RLE"], ["\u202c", "PDF"], ["\u202d", "LRO"], ["\u202e", "RLO"], ["\u2066", "LRI"], ["\u2067", "RLI"], ["\u2068", "FSI"],
    ["\u2069", "PDI"], ["\ufeff", "BOM"]]);
  const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  const visible = (text) => text.replace(UNSEEN, (c) => `⟨${NAMES.get(c) ?? c.charCodeAt(0).toString(16).padStart(2, "0")}⟩`);

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // ---- figures --------------------------------------------------------------------------------------------------
  const rowsOf = (mark) => {
    const names = Object.keys(mark.columns);
    return Array.from({ length: mark.columns[names[0]].length }, (_, i) => Object.fromEntries(names.map((n) => [n, mark.columns[n][i]])));
  };

  const styled = (mark) => {
    const options = { ...mark.options };
    delete options.label;
    if (mark.run === undefined) return options;
    const colour = colourOf(mark.run);
    if (mark.kind === "areaY" || mark.kind === "cell") return { fill: colour, ...options };
    if (mark.kind === "dot") return { stroke: colour, fill: colour, symbol: symbolOf(mark.run), r: 3, ...options };
    if (mark.kind === "lineY") return { stroke: colour, strokeWidth: 1.8, strokeDasharray: dashOf(mark.run), ...options };
    if (mark.kind === "text") return { fill: colour, ...options };
    return { stroke: colour, ...options };
  };

  const written = (key, value, shares) => {
    if (typeof value !== "number") return value === null || value === undefined ? "unknown" : visible(String(value));
    if (key !== "step" && key !== "problems" && (shares || key === "share")) return `${(100 * value).toFixed(1)} %`;
    return String(Math.round(value * 1e6) / 1e6);
  };

  // One entry per thing that can be pointed at: where it is, what it says, and where its texts are.
  const pointable = (plot, marks) => {
    const shares = plot.options.y?.tickFormat === ".0%";
    return marks.filter((mark) => mark.tip).flatMap((mark) => rowsOf(mark).map((row) => ({
      x: row[mark.options.x], y: row[mark.options.y], run: mark.run, step: row.step, row, fields: mark.tip,
      title: [...(mark.run === undefined ? [] : [data.runs[mark.run].name]), ...mark.tip.map((key) => `${key}: ${written(key, row[key], shares)}`)].join("\n"),
    }))).filter((entry) => entry.y !== null);
  };

  const drawn = (plot, width) => {
    const marks = plot.marks.filter((mark) => mark.run === undefined || !hidden.has(mark.run));
    const entries = pointable(plot, marks);
    const [inside, across] = [entries.filter((e) => e.y !== undefined), entries.filter((e) => e.y === undefined)];
    const box = { stroke: "currentColor", fill: "var(--page)", fontSize: 12 };
    const bands = plot.options.y?.type === "band";
    const svg = Plot.plot({
      width, height: bands ? 62 + 20 * plot.options.y.domain.length : 240, marginLeft: bands ? 62 : 46, marginTop: 26, marginBottom: 34, marginRight: 14,
      style: { background: "transparent", color: "inherit", fontSize: "11px", fontFamily: "inherit" },
      ariaLabel: plot.title,
      ...plot.options,
      marks: [
        ...marks.map((mark) => Plot[mark.kind](rowsOf(mark), styled(mark))),
        ...(inside.length ? [Plot.tip(inside, Plot.pointer({ x: "x", y: "y", title: "title", maxRadius: 50, ...box }))] : []),
        ...(across.length ? [Plot.tip(across, Plot.pointerX({ x: "x", title: "title", maxRadius: 5, anchor: "top", ...box }))] : []),
      ],
    });
    interactive(svg, entries);
    return { svg, entries };
  };

  const interactive = (svg, entries) => {
    const [x, y] = [svg.scale("x"), svg.scale("y")];
    const at = (scale, value) => (scale && value !== undefined ? scale.apply(value) + (scale.bandwidth ?? 0) / 2 : 0);
    const ordered = entries.map((entry) => ({ entry, px: at(x, entry.x), py: entry.y === undefined ? 60 : at(y, entry.y) })).sort((a, b) => a.px - b.px || a.py - b.py);
    let place = -1;
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "img");
    const follow = (entry) => entry && Number.isFinite(Number(entry.step)) && entry.run !== undefined && openStep(entry.run, Number(entry.step));
    svg.addEventListener("click", () => follow(svg.value));
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Enter") return void follow(ordered[place]?.entry);
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!move || !ordered.length) return;
      event.preventDefault();
      place = Math.min(ordered.length - 1, Math.max(0, place + move));
      const { entry, px, py } = ordered[place];
      const frame = svg.getBoundingClientRect();
      const [sx, sy] = [frame.width / svg.viewBox.baseVal.width, frame.height / svg.viewBox.baseVal.height];
      svg.dispatchEvent(new PointerEvent("pointermove", { clientX: frame.left + px * sx, clientY: frame.top + py * sy, pointerType: "mouse", bubbles: true }));
      document.getElementById("said").textContent = entry.title.replaceAll("\n", ", ");
    });
  };

  const tableOf = (entries) => {
    const fields = [...new Set(entries.flatMap((entry) => entry.fields))];
    const several = entries.some((entry) => entry.run !== undefined) && data.runs.length > 1;
    const body = entries.map((entry) => element("tr", {}, ...(several ? [element("td", {}, entry.run === undefined ? "" : data.runs[entry.run].name)] : []),
      ...fields.map((field) => element("td", {}, field in entry.row ? written(field, entry.row[field], false) : ""))));
    const head = [...(several ? ["run"] : []), ...fields].map((name) => element("th", { scope: "col" }, name));
    return element("div", { class: "scroll", tabindex: "0" }, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
  };

  const drawFigure = (holder) => {
    const plots = data.figures[holder.dataset.figure] ?? [];
    const shown = plots.filter((plot) => !plot.marks.length || plot.marks.some((mark) => mark.run === undefined || !hidden.has(mark.run)) );
    holder.replaceChildren(...shown.map((plot) => {
      const own = plot.marks.map((mark) => mark.run).filter((run) => run !== undefined);
      if (own.length && own.every((run) => hidden.has(run))) return "";
      const frame = element("div", { class: "plot" }, element("h4", {}, visible(plot.title)));
      holder.append(frame);
      const { svg, entries } = drawn(plot, Math.max(280, Math.min(560, frame.clientWidth || 360)));
      const numbers = element("details", { class: "numbers" }, element("summary", {}, "Numbers"));
      numbers.addEventListener("toggle", () => numbers.open && numbers.children.length === 1 && numbers.append(tableOf(entries)));
      frame.append(svg, numbers);
      return frame;
    }));
    holder.dataset.drawn = String(shown.length);
  };

  // A figure at a time, so that a page of many runs answers while it draws.
  const drawAll = () => document.querySelectorAll(".plots").forEach((holder, i) => setTimeout(() => drawFigure(holder), i * 10));

  const drawKeys = () => document.querySelectorAll(".key").forEach((key) => {
    const run = Number(key.dataset.key);
    const space = "http://www.w3.org/2000/svg";
    const line = document.createElementNS(space, "line");
    for (const [name, value] of Object.entries({ x1: 0, x2: 36, y1: 6, y2: 6, stroke: "currentColor", "stroke-width": 2, "stroke-dasharray": dashOf(run) })) line.setAttribute(name, value);
    const symbol = document.createElementNS(space, "path");
    const shapes = { circle: d3.symbolCircle, square: d3.symbolSquare, triangle: d3.symbolTriangle, diamond2: d3.symbolDiamond2, cross: d3.symbolCross, star: d3.symbolStar, wye: d3.symbolWye };
    symbol.setAttribute("d", d3.symbol(shapes[symbolOf(run)], 36)());
    symbol.setAttribute("transform", "translate(18,6)");
    symbol.setAttribute("fill", "currentColor");
    key.append(line, symbol);
  });

  // ---- completions ----------------------------------------------------------------------------------------------
  const SHOWN_AT_ONCE = 48;
  const LINES_AT_ONCE = 120;
  const MARKS = { r: "✓", w: "✗", p: "≈" };
  const SAID = { r: "right", w: "wrong", p: "partly right" };
  const SOURCES = { sampled: "sampled while training", evaluated: "greedy answers at evaluations" };
  const [STEP, GROUP, TEXT, PROMPT, REWARD, ADVANTAGE, ANSWER, TRUTH, GOAL, LINES, PARTS] = Array.from({ length: 11 }, (_, i) => i);
  const form = document.querySelector(".filters");
  const field = (name) => form.elements.namedItem(name);
  const opened = new Map(); // chunk -> promise of its content
  let limit = SHOWN_AT_ONCE;
  let turn = 0; // the newest request; an older one that comes back late is dropped

  const openChunk = (index) => {
    if (!opened.has(index)) opened.set(index, inflate(document.getElementById(`chunk-${index}`).textContent));
    return opened.get(index);
  };
  const inflate = async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  const chunksOf = (run, source) => data.chunks.map((chunk, index) => ({ ...chunk, index })).filter((chunk) => chunk.run === run && chunk.source === source);
  const fill = (select, options, value) => {
    select.replaceChildren(...options.map(([key, label]) => element("option", { value: key }, label)));
    if (options.some(([key]) => key === value)) select.value = value;
  };

  const fillSources = () => {
    const run = Number(field("run").value);
    const present = Object.keys(SOURCES).filter((source) => chunksOf(run, source).length);
    fill(field("source"), present.map((source) => [source, SOURCES[source]]), field("source").value);
    fillSteps();
  };
  const fillSteps = (wanted) => {
    const steps = chunksOf(Number(field("run").value), field("source").value).flatMap((chunk) => chunk.steps);
    const value = wanted === undefined ? field("step").value : String(wanted);
    fill(field("step"), [["", "all steps"], ...steps.map((step) => [String(step), String(step)])], value);
    if (steps.length && !steps.map(String).includes(value)) field("step").value = String(steps[steps.length - 1]);
    fill(field("group"), [["", "all"]], "");
  };

  const found = async () => {
    const step = field("step").value;
    const chunks = chunksOf(Number(field("run").value), field("source").value).filter((chunk) => step === "" || chunk.steps.includes(Number(step)));
    const contents = await Promise.all(chunks.map((chunk) => openChunk(chunk.index)));
    return contents.flatMap((content) => content.rows.filter((row) => step === "" || row[STEP] === Number(step)).map((row) => ({ row, content })));
  };

  const matching = (entries) => {
    const [group, outcome, text] = [field("group").value, field("outcome").value, field("text").value.toLowerCase()];
    const [least, most] = [field("least").value, field("most").value].map((v) => (v === "" ? null : Number(v)));
    const kept = entries.filter(({ row, content }) =>
      (group === "" || String(row[GROUP]) === group) &&
      (outcome === "" || (row[GOAL] !== null && (row[GOAL] >= 1) === (outcome === "right"))) &&
      (least === null || (row[REWARD] !== null && row[REWARD] >= least)) &&
      (most === null || (row[REWARD] !== null && row[REWARD] <= most)) &&
      (text === "" || content.texts[row[TEXT]].toLowerCase().includes(text)));
    const sign = { best: -1, worst: 1 }[field("order").value];
    return sign ? [...kept].sort((a, b) => sign * ((a.row[REWARD] ?? 0) - (b.row[REWARD] ?? 0))) : kept;
  };

  const linesOf = ({ row, content }) => {
    const text = content.texts[row[TEXT]];
    const lines = text.split("\n");
    const list = element("ol", { class: "lines" }, ...lines.slice(0, LINES_AT_ONCE).map((line, i) => {
      const verdict = (row[LINES] ?? "")[i] ?? " ";
      const mark = element("span", { class: "mark", ...(SAID[verdict] ? { "aria-label": SAID[verdict], role: "img" } : {}) }, MARKS[verdict] ?? "");
      return element("li", { class: verdict.trim() }, mark, element("bdi", { dir: "ltr" }, visible(line) || " "));
    }));
    const whole = content.clipped[row[TEXT]];
    const notes = [lines.length > LINES_AT_ONCE ? `${lines.length - LINES_AT_ONCE} more lines` : "", whole ? `cut here: ${whole.toLocaleString("en")} characters in all` : ""].filter(Boolean);
    if (notes.length) list.append(element("li", {}, element("em", {}, `… ${notes.join("; ")}`)));
    return list;
  };

  const number = (value, digits = 2) => (typeof value === "number" ? value.toFixed(digits).replace("-", "−") : "unknown");
  const cardOf = (entry, withPrompt) => {
    const { row, content } = entry;
    const where = `step ${row[STEP]} · ${field("source").value === "sampled" ? "group" : "problem"} ${row[GROUP]}`;
    const answered = row[ANSWER] === null || row[ANSWER] === undefined ? "" : ` · answered ${visible(String(row[ANSWER]))}` + (row[TRUTH] === null ? "" : `, true ${visible(String(row[TRUTH]))}`);
    const sampled = row[REWARD] === null ? "" : ` · reward ${number(row[REWARD])} · advantage ${row[ADVANTAGE] > 0 ? "+" : ""}${number(row[ADVANTAGE])}`;
    const parts = content.rewards.map((name, i) => `${visible(name)} ${number(row[PARTS][i])}`).join(" · ");
    const card = element("article", { class: "card" }, element("p", { class: "figures" }, where + sampled + answered), element("p", { class: "parts" }, parts), linesOf(entry));
    if (withPrompt) card.append(promptOf(entry));
    return card;
  };
  const promptOf = ({ row, content }) => element("details", {}, element("summary", {}, "Prompt"), element("pre", { class: "asked", dir: "ltr", tabindex: "0" }, visible(content.prompts[row[PROMPT]])));
  const groupHead = (members) => {
    const rewards = members.map(({ row }) => row[REWARD]).filter((value) => typeof value === "number");
    const figures = rewards.length > 1 ? `: mean reward ${number(d3.mean(rewards))}, standard deviation ${number(d3.deviation(rewards))}` : "";
    return element("div", { class: "group" }, element("h3", {}, `Group ${members[0].row[GROUP]}${figures}`), promptOf(members[0]));
  };

  const show = async () => {
    const mine = ++turn;
    const all = data.chunks.length ? await found() : [];
    if (mine !== turn) return;
    const step = field("step").value;
    const groups = [...new Set(all.map(({ row }) => row[GROUP]))].sort((a, b) => a - b);
    fill(field("group"), [["", "all"], ...groups.map((group) => [String(group), String(group)])], field("group").value);
    const kept = matching(all);
    const grouped = step !== "" && field("order").value === "" && field("source").value === "sampled";
    const cards = [];
    let group = null;
    for (const entry of kept.slice(0, limit)) {
      if (grouped && entry.row[GROUP] !== group) {
        group = entry.row[GROUP];
        cards.push(groupHead(all.filter(({ row }) => row[GROUP] === group)));
      }
      cards.push(cardOf(entry, !grouped));
    }
    document.querySelector(".cards").replaceChildren(...cards);
    document.querySelector(".count").textContent = data.chunks.length ? `${kept.length} of ${all.length} completions${step === "" ? "" : ` of step ${step}`}` : "No completions were kept.";
    document.querySelector(".more").hidden = kept.length <= limit;
    document.querySelector(".cards").dataset.shown = String(mine);
  };
  const again = () => { limit = SHOWN_AT_ONCE; return show(); };

  const openStep = (run, step) => {
    const source = ["sampled", "evaluated"].find((name) => chunksOf(run, name).some((chunk) => chunk.steps.includes(step)));
    if (!source) return;
    field("run").value = String(run);
    fillSources();
    field("source").value = source;
    fillSteps(step);
    again();
    document.getElementById("completions").scrollIntoView();
  };

  const stepBy = (move) => {
    const select = field("step");
    const next = select.selectedIndex + move;
    if (next >= 1 && next < select.options.length) { select.selectedIndex = next; fill(field("group"), [["", "all"]], ""); again(); }
  };

  // ---- begin ----------------------------------------------------------------------------------------------------
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => {
    if (event.target.name === "run") fillSources();
    if (event.target.name === "source") fillSteps();
    if (event.target.name === "step") fill(field("group"), [["", "all"]], "");
    if (event.target.tagName === "SELECT") again();
  });
  form.addEventListener("input", (event) => { if (event.target.tagName === "INPUT") again(); });
  field("earlier").addEventListener("click", () => stepBy(-1));
  field("later").addEventListener("click", () => stepBy(1));
  document.querySelector(".more").addEventListener("click", () => { limit += SHOWN_AT_ONCE; show(); });
  document.querySelectorAll(".legend input").forEach((box) => box.addEventListener("change", () => {
    box.checked ? hidden.delete(Number(box.dataset.run)) : hidden.add(Number(box.dataset.run));
    drawAll();
  }));
  fill(field("run"), data.runs.map((run, i) => [String(i), visible(run.name)]).filter(([i]) => data.chunks.some((chunk) => String(chunk.run) === i)), "0");
  fillSources();
  drawKeys();
  drawAll();
  again();
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(document.body.clientWidth - width) < 20) return;
    width = document.body.clientWidth;
    drawAll();
  }).observe(document.body);
})();
