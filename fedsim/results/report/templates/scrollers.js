// A box that is wider than its room says so: `data-more` names the sides on which there is more,
// which the style fades, and the box's name says it to those who hear the page.
const scrollers = new ResizeObserver((seen) => seen.forEach(({ target }) => announce(target.closest(".scroll"))));

function announce(box) {
  const spare = box.scrollWidth - box.clientWidth;
  const sides = [box.scrollLeft > 1 ? "left" : "", spare - box.scrollLeft > 1 ? "right" : ""];
  if (spare > 1) box.dataset.more = sides.join(" ").trim();
  else delete box.dataset.more;
  box.dataset.name ??= box.getAttribute("aria-label") ?? "";
  const name = [box.dataset.name, spare > 1 ? "scrolls sideways" : ""].filter(Boolean).join(", ");
  if (name) box.setAttribute("aria-label", name);
}

/** Watch all boxes within an element: their sizes, and those of what they hold. */
function watchScrollers(within) {
  for (const box of within.querySelectorAll(".scroll")) {
    box.addEventListener("scroll", () => announce(box), { passive: true });
    scrollers.observe(box);
    if (box.firstElementChild) scrollers.observe(box.firstElementChild);
  }
}
