// What lies outside the window or its card, or below a column that stays in place, by the boxes of what is shown. Strips of links and of
// states may be scrolled: they bring the current one into sight.
() => {
  const found = [];
  const box = (element) => element.getBoundingClientRect();
  const name = (element) => `${element.tagName} “${(element.getAttribute("aria-label") ?? element.textContent).trim().slice(0, 40)}”`;
  const isShown = (element) =>
    element.checkVisibility() && box(element).width > 1 && !element.closest(".sr, .skip, nav, .tabs.states, .popover");
  const over = document.documentElement.scrollWidth - innerWidth;
  if (over > 0) found.push(`the page is ${over} px too wide`);
  for (const element of document.querySelectorAll("a, button, input, select, textarea, summary, main :is(h1, h2, p, dt, dd, td, th, b, span)")) {
    const { left, right } = box(element);
    const around = box(element.closest(".card") ?? document.body);
    // Text that an ellipsis ends reaches no further than the box that cuts it.
    const isCut = element.parentElement.closest(".cut, .wide") !== null;
    if (isShown(element) && !isCut && (left < around.left || right > around.right)) {
      found.push(`${name(element)} reaches from ${left} to ${right} px`);
    }
  }
  for (const fixed of document.querySelectorAll("td.end")) {
    if (getComputedStyle(fixed).position !== "sticky") continue;
    for (const cell of fixed.parentElement.children) {
      const below = box(cell).right - box(fixed).left;
      if (cell !== fixed && isShown(cell) && below > 1) found.push(`${below} px of ${name(cell)} are behind ${name(fixed)}`);
    }
  }
  return found;
}
