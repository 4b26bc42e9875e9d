(() => {
  watchScrollers(document);
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
        watchScrollers(drawing);
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
})();
