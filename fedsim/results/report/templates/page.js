"use strict";
(() => {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));

  function show(chosen, focus) {
    tabs.forEach((tab, number) => {
      const own = tab === chosen;
      tab.setAttribute("aria-selected", String(own));
      tab.tabIndex = own ? 0 : -1;
      panels[number].hidden = !own;
    });
    if (focus) chosen.focus();
    history.replaceState(null, "", address(chosen));
  }

  // No element has such an id, or the browser would scroll to the panel and hide the tabs.
  function address(tab) {
    return `#/${tab.getAttribute("aria-controls")}`;
  }

  tabs.forEach((tab, number) => {
    tab.addEventListener("click", () => show(tab, false));
    tab.addEventListener("keydown", (event) => {
      const last = tabs.length - 1;
      const next = {
        ArrowRight: number === last ? 0 : number + 1,
        ArrowLeft: number === 0 ? last : number - 1,
        Home: 0,
        End: last,
      }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      show(tabs[next], true);
    });
  });
  // "#energy" is understood, too; the browser has scrolled to the panel then.
  function asked() {
    const found = tabs.find((tab) => [address(tab), address(tab).replace("/", "")].includes(location.hash));
    if (found && !location.hash.startsWith("#/")) scrollTo(0, 0);
    return found;
  }
  window.addEventListener("hashchange", () => show(asked() || tabs[0], false));
  show(asked() || tabs[0], false);

  // The page of a study in progress is drawn again and again; who reads another tab is left alone.
  const pause = Number(document.body.dataset.reload);
  const isFollowed = () => !document.hidden && tabs[0].getAttribute("aria-selected") === "true";
  if (pause) setInterval(() => { if (isFollowed()) location.reload(); }, 1000 * pause);

  // A figure that a menu offers waits in a template until it is chosen; some are of several choices.
  function choose(chooser) {
    const chosen = [...chooser.querySelectorAll("select")].map((each) => each.value).join("/");
    for (const plot of chooser.querySelectorAll(".plot")) {
      const waiting = plot.querySelector(`template[data-choice~="${chosen}"]`);
      if (waiting) {
        const drawing = document.createElement("div");
        drawing.className = "drawing";
        Object.assign(drawing.dataset, waiting.dataset);
        drawing.append(waiting.content);
        waiting.replaceWith(drawing);
      }
      const drawings = [...plot.querySelectorAll(".drawing")];
      for (const each of drawings) each.hidden = !each.matches(`[data-choice~="${chosen}"]`);
      const own = drawings.find((each) => !each.hidden);
      plot.nextElementSibling.textContent = own ? own.dataset.note : "There is nothing to show.";
    }
    hide(chooser);
  }

  function hide(chooser) {
    for (const button of chooser.querySelectorAll("[aria-pressed]")) {
      const hidden = button.getAttribute("aria-pressed") === "false";
      for (const curve of chooser.querySelectorAll(`g[data-group="${button.dataset.group}"]`)) {
        curve.toggleAttribute("hidden", hidden);
      }
    }
  }

  for (const menu of document.querySelectorAll(".chooser select")) {
    menu.addEventListener("change", () => choose(menu.closest(".chooser")));
  }
  for (const button of document.querySelectorAll(".chooser [aria-pressed]")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") === "false"));
      hide(button.closest(".chooser"));
    });
  }

  // What is under the pointer is shown at once, also for touch.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  function written(value) {
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  }

  // The share of an axis at which something lies, read as the figure that is written there.
  function read(axis, share) {
    const [kind, low, high, factor, ...unit] = axis.split(" ");
    const ends = [Number(low), Number(high)];
    const [from, to] = kind === "log" ? ends.map(Math.log10) : ends;
    const place = from + share * (to - from);
    const value = (kind === "log" ? 10 ** place : place) / Number(factor);
    return [written(value), ...unit].join(" ");
  }

  const lines = new WeakMap();
  function points(line) {
    if (!lines.has(line)) {
      const found = [];
      for (const [, start, steps] of line.getAttribute("d").matchAll(/M([^lh]*)(?:l([^M]*)|h0)/g)) {
        let [x, y] = start.split(" ").map(Number);
        found.push([x, y]);
        const numbers = ((steps || "").match(/-?\d+/g) || []).map(Number);
        for (let at = 0; at < numbers.length; at += 2) {
          x += numbers[at];
          y += numbers[at + 1];
          found.push([x, y]);
        }
      }
      lines.set(line, found);
    }
    return lines.get(line);
  }

  // The point of a curve that is nearest to the pointer, if one is near.
  function nearest(area, event) {
    const box = area.getBoundingClientRect();
    const [wide, high] = [box.width / 10000, box.height / 10000];
    let best = null;
    let least = 30;
    for (const line of area.querySelectorAll("g:not([hidden]) > .line")) {
      for (const [x, y] of points(line)) {
        const far = Math.hypot(box.x + x * wide - event.clientX, box.y + y * high - event.clientY);
        if (far < least) [best, least] = [[line, x, y], far];
      }
    }
    if (!best) return "";
    const [line, x, y] = best;
    const at = [read(area.dataset.x, x / 10000), read(area.dataset.y, 1 - y / 10000)];
    return `${line.parentNode.dataset.tip || ""}\n${at.join(": ")}`;
  }

  // The browser would show a title as well, a second later.
  function taken(title) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }

  function tipFor(event) {
    if (!event.target.closest) return "";
    const area = event.target.closest(".drawing")?.querySelector(":scope > svg.area[data-y]");
    if (area) {
      area.querySelectorAll("title").forEach(taken);
      return nearest(area, event);
    }
    const mark = event.target.closest("svg :has(> title), svg [data-tip]");
    if (!mark) return "";
    mark.querySelectorAll(":scope > title").forEach(taken);
    return mark.dataset.tip;
  }

  function showTip(event) {
    tip.textContent = tipFor(event);
    tip.hidden = !tip.textContent;
    if (tip.hidden) return;
    const right = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6);
    const below = event.clientY + 16;
    const fits = below + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(right, 6)}px`;
    tip.style.top = `${fits ? below : event.clientY - tip.offsetHeight - 10}px`;
  }
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, showTip);
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);
})();
