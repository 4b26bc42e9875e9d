// The explorer: sliders, costs, bars, map and command. All figures come from `evaluate`.

const EDGE = 30; // of the map: a tick as near to a corner has its text beside it
const LONGEST = 24; // letters of a name that stays in one line
const CELLS = 24; // of the map, each way
const DOUBLE = 2; // changes below this factor are in per cent
const SLICE = 30; // ms: longer computations give way to the browser between slices

const element = (id) => document.getElementById(id);
let study; // see study.js
let written; // its constants as written

// Drawing: small helpers, then the parts of the page.

function make(name, attributes = {}, ...children) {
  const own = document.createElement(name);
  return fill(own, attributes, children);
}

function draw(name, attributes = {}, ...children) {
  const own = document.createElementNS("http://www.w3.org/2000/svg", name);
  return fill(own, attributes, children);
}

function fill(own, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) own.setAttribute(key, value);
  own.append(...children);
  return own;
}

const colour = (variant) => `--own: var(--c${study.variants[variant].colour})`;
const label = (variant) => study.variants[variant].label;

/** Return the nodes of a text in which no line ends within the name of a variant. */
function withNames(text) {
  const names = study.variants.map((own) => own.label).filter((own) => own.includes("-") && own.length <= LONGEST);
  const parts = names.sort((one, other) => other.length - one.length)
    .reduce((all, name) => all.flatMap((part) => splitAt(part, name)), [text]);
  return parts.filter((part) => part !== "");
}

/** Return a text, if it is one, split at each place of a name, which becomes a node there. */
function splitAt(part, name) {
  if (typeof part !== "string") return [part];
  return part.split(name).flatMap((own, n) => (n ? [make("span", { class: "name" }, name), own] : [own]));
}

const state = { values: null, cost: 0, before: null, effects: null, job: 0, frame: null };

/** Show the costs of every variant, and beside each its ratio to the least. */
function showTable({ costs }) {
  const heads = study.costs.flatMap(([, words]) => [words, "ratio"]);
  const head = make("tr", {}, make("th", { scope: "col" }, "variant"));
  heads.forEach((text) => head.append(make("th", { scope: "col", class: "figure" }, text)));
  const body = make("tbody");
  study.variants.forEach((_, variant) => {
    const mark = draw("svg", { class: "mark", viewBox: "0 0 10 10", "aria-hidden": "true" },
      draw("rect", { width: 10, height: 10, class: "bar", style: colour(variant) }));
    const row = make("tr", { "data-variant": label(variant) }, make("td", label(variant).length <= LONGEST ? { class: "name" } : {}, mark, ` ${label(variant)}`));
    costs.forEach((own, number) => row.append(...costCells(own, number, variant)));
    body.append(row);
  });
  element("costs").replaceChildren(make("thead", {}, head), body);
  announce(element("costs").parentElement);
}

/** Return the two cells of a cost: the mean and, below it, the one as written; the ratio. */
function costCells(own, number, variant) {
  const unit = study.costs[number][2];
  const means = own.map(typical);
  const least = leastOf(means);
  const mean = means[variant];
  const before = typical(state.before.costs[number][variant]);
  const best = variant === least ? " least" : "";
  const cell = make("td", { class: `figure${best}`, "data-value": mean }, costText(mean, unit));
  if (before !== mean && Number.isFinite(before))
    cell.append(make("br"), make("span", { class: "under" }, `original ${quantity(before, unit)}`));
  const factor = least < 0 || Number.isNaN(mean) ? NaN : ratio(own[variant], own[least]);
  const text = variant === least ? "least" : Number.isFinite(factor) ? `\u00d7${digits(factor)}` : "-";
  return [cell, make("td", { class: `figure${best}` }, text)];
}

function costText(mean, unit) {
  if (mean === Infinity) return "not reached";
  return Number.isNaN(mean) ? "unknown" : quantity(mean, unit);
}

/** Show the verdict of the study as written; with moved constants, the lowest of each cost. */
function showAnswer({ invalid, costs }) {
  const moved = state.values.filter((value, n) => value !== written[n]).length;
  const where = moved ? `With ${moved} constant${moved > 1 ? "s" : ""} moved: ` : "With the original constants: ";
  const parts = moved ? costs.map(lowest).filter(Boolean) : study.verdicts;
  element("answer").replaceChildren(...withNames(`${where}${parts.join("; ") || "no cost is known"}.`));
  const low = costs[0].flatMap((own, n) => (own.some(([, each]) => Number.isNaN(each)) ? [label(n)] : []));
  const battery = `${low.join(", ")}: a battery runs low here, so the run would go differently`;
  element("invalid").textContent = invalid ? `No device has these values: ${invalid}.` : `${battery}; train it again with fedsim run.`;
  element("invalid").hidden = !invalid && !low.length;
}

/** Return which variant has the lowest of a cost, how far the next one is, and in which seeds. */
function lowest(own, number) {
  const [, words, unit] = study.costs[number];
  const { least, next } = nextToLeast(own);
  if (least < 0) return "";
  const text = `lowest ${words}: ${label(least)} (${quantity(typical(own[least]), unit)})`;
  if (next < 0) return text;
  const share = 1 - ratio(own[least], own[next]);
  if (share / (1 - share) <= study.practical)
    return `${text}, the same within ${digits(100 * study.practical)} % as ${label(next)}`;
  const [less, seeds] = agreement(own[least], own[next]);
  return `${text}, ${digits(100 * share, 2)} % below ${label(next)}, less in ${less} of ${seeds} seeds`;
}

/** Draw a bar a variant of the chosen cost, and the one as written around it. */
function showBars({ costs }) {
  const [, words, unit] = study.costs[state.cost];
  const means = costs[state.cost].map(typical);
  const before = state.before.costs[state.cost].map(typical);
  const largest = Math.max(...[...means, ...before].filter(Number.isFinite), 1e-300);
  const texts = means.map((mean, n) => `${label(n)} ${costText(mean, unit)}`);
  const long = (value) => `width: ${Number.isFinite(value) ? (100 * value) / largest : 0}%`;
  const bars = means.flatMap((mean, n) => [
    make("p", {}, texts[n]),
    make("div", { class: "row" },
      make("div", { class: "long", style: `${colour(n)}; ${long(mean)}` }),
      make("div", { class: "before", style: long(before[n]) })),
  ]);
  element("bars").setAttribute("aria-label", `${words}: ${texts.join(", ")}`);
  element("bars").replaceChildren(...bars);
  element("bars-note").textContent = `The ${words} of each variant; dashed: original.`;
}

/** Show the commands that give the figures of the page. */
function showCommand() {
  const moved = study.sliders.flatMap((slider, n) => (state.values[n] === slider.value ? [] : [n]));
  const lines = study.commands.map(({ fleet, place }) => {
    const sets = moved.flatMap((n) =>
      study.sliders[n].keys[fleet].map(
        (key) => ` --set "${key}=${override(state.values[n], study.sliders[n].unit)}"`));
    return sets.length ? `fedsim reprice ${place}${sets.join("")}` : "";
  });
  const text = lines.filter(Boolean).join("\n");
  element("command").textContent = text || "fedsim reprice: no constant has been moved";
  element("command-note").textContent = text
    ? "This writes the re-priced runs, with logs and tables, and gives these figures."
    : "Move a constant to see the overrides that give the same figures.";
  element("copy").disabled = !text;
  element("copied").textContent = "";
}

/** Show where each slider stands. */
function showSliders() {
  study.sliders.forEach((slider, n) => {
    const [input, value] = [element(`s${n}`), state.values[n]];
    const text = quantity(value, slider.unit);
    const position = Math.round(STEPS * shareOf(slider, value));
    // A slider under the pointer keeps its position; its value is what that position means.
    if (valueOf(slider, Number(input.value)) !== value) input.value = position;
    input.setAttribute("aria-valuetext", text);
    element(`o${n}`).textContent = text;
    input.closest(".slider").classList.toggle("moved", value !== slider.value);
  });
}

/** Show by how much each constant alone changes the chosen cost, and whether another one wins. */
function showEffects() {
  if (!state.effects) return;
  const [, words] = study.costs[state.cost];
  state.effects.forEach((ends, n) => {
    const { reach, turns } = ends[state.cost];
    const factor = Math.exp(reach);
    const size = factor < DOUBLE ? `${digits(100 * (factor - 1), 2)} %` : `a factor of ${digits(factor)}`;
    const change = reach < 5e-4 ? `no effect on ${words}` : `changes ${words} by up to ${size}`;
    element(`e${n}`).textContent = turns ? `${change}; another variant becomes the cheapest` : change;
    element(`s${n}`).closest(".slider").classList.toggle("idle", reach < 5e-4);
  });
}

// Longer computations, in slices between which the page stays alive.

/** Run a generator in slices until it ends or `alive` says no; then call `end`. */
function inSlices(work, alive, end) {
  const until = performance.now() + SLICE;
  while (performance.now() < until) if (work.next().done) return end();
  setTimeout(() => alive() && inSlices(work, alive, end));
}

/** Compute what each constant does alone, from one end of its range to the other. */
function* effects(found) {
  const winners = state.before.costs.map((own) => leastOf(own.map(typical)));
  for (const [n, slider] of study.sliders.entries()) {
    const ends = [slider.low, slider.high].map((end) => evaluate(study, written.with(n, end)));
    yield;
    found[n] = study.costs.map((_, number) => {
      const means = ends.map(({ costs }) => costs[number].map(typical));
      const reaches = means[0].map((low, variant) => Math.abs(Math.log(low / means[1][variant])));
      const leads = means.map((own) => leadOver(own, winners[number]));
      return {
        reach: Math.max(0, ...reaches.filter(Number.isFinite)),
        turns: means.some((own) => leastOf(own) >= 0 && leastOf(own) !== winners[number]),
        lead: Math.min(...leads),
        nearest: leads[0] <= leads[1] ? slider.low : slider.high,
      };
    });
  }
}

/** Return how much the best other variant takes beyond one, as a share of that one's cost. */
function leadOver(means, variant) {
  const others = means.filter((mean, n) => n !== variant && !Number.isNaN(mean));
  const lead = Math.min(...others) / means[variant] - 1;
  return Number.isNaN(lead) ? Infinity : lead;
}

/** Compute the map: the winner of each cell, first of every eighth cell, then of those between. */
function* winners(x, y, cells) {
  const seen = new Set();
  for (let step = 8; step >= 1; step /= 2)
    for (let row = 0; row < CELLS; row += step)
      for (let column = 0; column < CELLS; column += step) {
        if (seen.has(row * CELLS + column)) continue;
        seen.add(row * CELLS + column);
        const values = state.values
          .with(x, valueAt(study.sliders[x], (column + 0.5) / CELLS))
          .with(y, valueAt(study.sliders[y], (row + 0.5) / CELLS));
        const means = evaluate(study, values).costs[state.cost].map(typical);
        const least = leastOf(means);
        cells.push({ row, column, step, least, lead: least < 0 ? 0 : leadOver(means, least) });
        yield;
      }
}

/** Return the cell that is shown at each place: the finest that is computed, coarser ones before. */
function gridOf(cells) {
  const grid = new Map();
  for (const cell of cells)
    for (let row = cell.row; row < cell.row + cell.step; row++)
      for (let column = cell.column; column < cell.column + cell.step; column++)
        grid.set(row * CELLS + column, cell);
  return grid;
}

const MAP = { left: 108, top: 8, size: 400, bottom: 46 };

/** Draw the map of two constants, as far as it is computed; a click moves both. */
function showMap(x, y, cells) {
  const { left, top, size, bottom } = MAP;
  const each = size / CELLS;
  const svg = draw("svg", { viewBox: `0 0 ${left + size + 12} ${top + size + bottom}`, role: "img" });
  const largest = Math.max(...leadsOf(cells), 1e-12);
  for (const [place, { least, lead }] of gridOf(cells))
    svg.append(draw("rect", {
      class: least < 0 ? "cell none" : "cell",
      style: least < 0 ? "" : `${colour(least)}; opacity: ${0.3 + 0.7 * Math.min(lead / largest, 1)}`,
      x: left + (place % CELLS) * each,
      y: top + size - (Math.floor(place / CELLS) + 1) * each,
      width: each,
      height: each,
    }));
  svg.append(draw("rect", { class: "frame", x: left, y: top, width: size, height: size }));
  const at = (values) => [
    left + size * shareOf(study.sliders[x], values[x]),
    top + size * (1 - shareOf(study.sliders[y], values[y])),
  ];
  svg.append(...mapAxis(x, false), ...mapAxis(y, true));
  const [[cx, cy], [ox, oy]] = [at(state.values), at(written)];
  svg.append(
    draw("circle", { class: "halo", cx: ox, cy: oy, r: 8 }), draw("circle", { class: "ring", cx: ox, cy: oy, r: 8 }),
    draw("circle", { class: "halo", cx, cy, r: 4 }), draw("circle", { class: "cross", cx, cy, r: 4 }));
  element("map").replaceChildren(svg);
  showMapNote(svg, cells);
}

/** Return the finite leads of the winners of some cells. */
function leadsOf(cells) {
  return cells.filter(({ least }) => least >= 0).map(({ lead }) => lead).filter(Number.isFinite);
}

/** Return the texts of an axis of the map: its name, and round values with their unit. */
function mapAxis(number, upright) {
  const { left, top, size } = MAP;
  const slider = study.sliders[number];
  const ticks = ticksOf(slider).map((value) => [size * shareOf(slider, value), quantity(value, slider.unit)]);
  const title = slider.low > 0 ? `${slider.title}, log scale` : slider.title;
  if (upright)
    return [
      ...ticks.flatMap(([at, text]) => [
        draw("path", { class: "tick", d: `M${left} ${top + size - at}h-4` }),
        draw("text", { x: left - 6, y: top + size - at + 5, "text-anchor": "end" }, text),
      ]),
      draw("text", { transform: `translate(14 ${top + size / 2}) rotate(-90)`, "text-anchor": "middle" }, title),
    ];
  const y = top + size + 16;
  return [
    ...ticks.flatMap(([at, text]) => [
      draw("path", { class: "tick", d: `M${left + at} ${top + size}v4` }),
      draw("text", { x: left + at, y, "text-anchor": at > size - EDGE ? "end" : at < EDGE ? "start" : "middle" }, text),
    ]),
    draw("text", { x: left + size / 2, y: y + 20, "text-anchor": "middle" }, title),
  ];
}

function clickMap(event) {
  const [x, y] = [Number(element("map-x").value), Number(element("map-y").value)];
  const box = element("map").firstElementChild.getBoundingClientRect();
  const scale = (MAP.left + MAP.size + 12) / box.width;
  const across = ((event.clientX - box.left) * scale - MAP.left) / MAP.size;
  const up = 1 - ((event.clientY - box.top) * scale - MAP.top) / MAP.size;
  if (Math.min(across, up) < 0 || Math.max(across, up) > 1) return;
  state.values[x] = valueOf(study.sliders[x], Math.round(STEPS * across));
  state.values[y] = valueOf(study.sliders[y], Math.round(STEPS * up));
  update();
}

/** Say in words what the colours of the map are. */
function showMapNote(svg, cells) {
  const fine = new Map(cells.map(({ row, column, least }) => [row * CELLS + column, least]));
  const shares = study.variants.flatMap((_, n) => {
    const own = [...fine.values()].filter((least) => least === n).length;
    return own ? [[n, `${label(n)} ${Math.round((100 * own) / fine.size)} %`]] : [];
  });
  const [, words] = study.costs[state.cost];
  svg.setAttribute("aria-label", `Least ${words}: ${shares.map(([, text]) => text).join(", ")}`);
  const keys = shares.flatMap(([n, text]) => [
    draw("svg", { class: "mark", viewBox: "0 0 10 10", "aria-hidden": "true" },
      draw("rect", { width: 10, height: 10, class: "bar", style: colour(n) })), ` ${text}  `]);
  const rest = `Least ${words}, all other constants as set by the sliders. Stronger colour: larger lead${leadText(cells)}. Dot: current; dashed: original.`;
  element("map-note").replaceChildren(...keys, make("br"), rest);
  element("map-alone").replaceChildren(...withNames(aloneText(shares, fine.size === CELLS * CELLS)));
}

/** Return between which leads the colours of the map range. */
function leadText(cells) {
  const leads = leadsOf(cells);
  if (!leads.length) return "";
  const [least, most] = [Math.min(...leads), Math.max(...leads)].map((lead) => digits(100 * lead, 2));
  return ` over the next variant, ${least} % to ${most} %`;
}

/** Say that no pair of values on the map turns the answer, and which constant comes nearest to it. */
function aloneText(shares, complete) {
  if (!complete || shares.length !== 1) return "";
  const words = study.costs[state.cost][1];
  const text = `${label(shares[0][0])} takes the least ${words} for all values on this map`;
  if (state.effects.some((ends) => ends[state.cost].turns)) return `${text}.`;
  const [n] = byLead();
  const { lead, nearest } = state.effects[n][state.cost];
  const slider = study.sliders[n];
  return `${text}, and no constant alone turns this answer. Nearest: ${slider.title} at ${quantity(nearest, slider.unit)}, which leaves a lead of ${digits(100 * lead, 2)} %.`;
}

/** Return the sliders by the lead that they leave to the cheapest variant: those that turn it first. */
function byLead() {
  const rank = (n) => {
    const { reach, lead } = state.effects[n][state.cost];
    return reach < 5e-4 ? Infinity : lead;
  };
  return [...written.keys()].sort((a, b) => rank(a) - rank(b) || a - b);
}

/** Compute and draw the map anew; a later call ends an earlier one. */
function startMap() {
  const [x, y] = [Number(element("map-x").value), Number(element("map-y").value)];
  const [cells, job] = [[], ++state.job];
  let shown = 0;
  const alive = () => {
    if (state.job !== job) return false;
    if (performance.now() - shown > 150) showMap(x, y, cells);
    shown = performance.now();
    return true;
  };
  const work = winners(x, y, cells);
  const end = () => {
    if (state.job !== job) return;
    showMap(x, y, cells);
    element("map").dataset.done = "";
  };
  delete element("map").dataset.done;
  setTimeout(() => alive() && inSlices(work, alive, end));
}

/** Show everything at the next frame: a slider may move several times until then. */
function updateSoon() {
  state.frame ??= requestAnimationFrame(() => {
    state.frame = null;
    update();
  });
}

/** Show everything under the present values. */
function update() {
  const found = evaluate(study, state.values);
  showSliders();
  showAnswer(found);
  showTable(found);
  showBars(found);
  showCommand();
  showEffects();
  startMap();
  return found;
}

/** Compare the costs as written with those of the logs, which another program computed. */
function showCheck() {
  let worst = 0;
  const places = study.variants.map(() => 0);
  for (const run of study.runs) {
    const place = places[run.variant]++;
    study.costs.forEach((_, number) => {
      const known = run.known[number];
      if (!run.history || known === null) return;
      const own = state.before.costs[number][run.variant][place][1];
      worst = Math.max(worst, known ? Math.abs(own / known - 1) : Math.abs(own));
    });
  }
  const text = `With the original constants, costs differ from those of the logs by at most ${
    worst.toExponential(1)}, relative to them.`;
  element("check").textContent = text;
  element("check").dataset.worst = worst;
}

/** Offer the constants as axes of the map, those that turn the answer, or come nearest, first. */
function offerAxes() {
  const order = byLead();
  ["map-x", "map-y"].forEach((id, place) => {
    const options = order.map((n) => make("option", { value: n }, study.sliders[n].title));
    element(id).replaceChildren(...options);
    element(id).value = order[Math.min(place, order.length - 1)];
    element(id).addEventListener("change", startMap);
  });
}

/** Connect the controls. */
function connect() {
  study.sliders.forEach((slider, n) => {
    const input = element(`s${n}`);
    const mark = input.parentElement.querySelector(".written");
    // The thumb's centre runs from half its width to as much before the end.
    mark.style.left = `calc(8px + ${shareOf(slider, slider.value)} * (100% - 16px))`;
    input.value = Math.round(STEPS * shareOf(slider, slider.value));
    input.addEventListener("input", () => {
      state.values[n] = valueOf(slider, Number(input.value));
      updateSoon();
    });
    const cells = element("intervals").tBodies[0].rows[n].cells;
    [slider.value, slider.low, slider.high].forEach((value, place) => {
      cells[place + 1].textContent = quantity(value, slider.unit, 6);
    });
  });
  // The drawing is replaced while it is computed, so that a press and its release may be on two.
  element("map").addEventListener("pointerup", clickMap);
  element("reset").addEventListener("click", () => {
    state.values = [...written];
    study.sliders.forEach((slider, n) => (element(`s${n}`).value = Math.round(STEPS * shareOf(slider, slider.value))));
    update();
  });
  element("cost").addEventListener("change", () => {
    state.cost = Number(element("cost").value);
    update();
  });
  element("copy").addEventListener("click", async () => {
    await navigator.clipboard.writeText(element("command").textContent);
    element("copied").textContent = "copied";
  });
}

/** Read the histories, then show the study as written. */
async function start() {
  watchScrollers(document);
  study = await openStudy(element("data").textContent, element("block").textContent);
  written = study.sliders.map((slider) => slider.value);
  state.values = [...written];
  state.cost = Number(element("cost").value);
  state.before = evaluate(study, written);
  connect();
  showCheck();
  const found = [];
  inSlices(effects(found), () => true, () => {
    state.effects = found;
    offerAxes();
    update();
    document.body.dataset.ready = "";
  });
}

start();
