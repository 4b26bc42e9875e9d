"use strict";
(() => {
  const [state, closed, none, newer, frame, drawing] = ["state", "closed", "none", "newer", "ended", "drawing"].map(
    (id) => document.getElementById(id),
  );
  const heading = document.querySelector("h1");
  const tab = document.getElementById("tab-report");
  let ended = 0; // runs, as the last answer had it
  let reported = 0; // runs of the report that is shown
  let failures = 0;

  function report() {
    none.hidden = ended > 0;
    if (ended > reported && (!reported || newer.dataset.asked)) {
      reported = ended;
      delete newer.dataset.asked;
      frame.src = `report.html?${ended}`;
      frame.hidden = false;
      drawing.hidden = false;
    }
    newer.hidden = ended <= reported;
  }

  tab.addEventListener("click", report);
  document.getElementById("again").addEventListener("click", () => {
    newer.dataset.asked = "yes";
    report();
  });

  frame.addEventListener("load", () => { drawing.hidden = true; });

  async function look() {
    let pause = 1;
    if (!document.hidden) {
      try {
        const answer = await fetch("live.json", { cache: "no-store" });
        if (!answer.ok) throw new Error(answer.status);
        const now = await answer.json();
        failures = 0;
        pause = now.pause;
        ended = now.ended;
        document.title = now.title;
        heading.textContent = now.name;
        state.innerHTML = now.html;
        if (tab.getAttribute("aria-selected") === "true") report();
      } catch {
        failures += 1;
      }
    }
    closed.hidden = failures < 3;
    if (failures < 3) setTimeout(look, 1000 * pause);
  }
  look();
})();
