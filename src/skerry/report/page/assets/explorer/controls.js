/* Sliders and choices of the explorer. Text goes in as text, never as HTML. */
"use strict";

const SkerryControls = (() => {
  const { smallest } = SkerryArithmetic;
  const { lawful, stopsOf } = SkerrySettings;
  const { number } = SkerryExplorerWords;

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") made.textContent = value;
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  /* A slider with a number box. `set(value)` is called only with numbers that the theory allows. */
  function slider(one, id, source, own, set) {
    const range = element("input", { type: "range", id, step: "1", min: "0" });
    const box = element("input", {
      type: "number", step: one.whole ? "1" : "any", "aria-label": `${one.label}, as a number`,
    });
    const title = element("label", { for: id, text: `${one.label} ` }, element("i", { text: one.symbol }));
    const origin = element("small", { class: "explorer-source", text: source });
    const row = element("div", { class: "explorer-slider" }, title, box, range, origin);
    let stops = [], x = null;
    range.addEventListener("input", () => set(stops[Number(range.value)]));
    box.addEventListener("change", () => {
      const value = box.value.trim() === "" ? null : lawful(one, Number(box.value), x);
      if (value === null) show(x);
      else set(value);
    });
    function show(setting, origins = source) {
      x = setting;
      const given = x[one.name], value = Array.isArray(given) ? given.length : given;
      stops = stopsOf(one, x, own);
      const nearest = smallest([...stops.keys()], (i) => Math.abs(apart(stops[i], value)));
      range.max = String(stops.length - 1);
      range.value = String(nearest);
      range.setAttribute("aria-valuetext", number(value));
      if (Number(box.value) !== value || box.value === "") box.value = String(value);
      origin.textContent = value === own || origins !== source ? origins : "changed";
    }
    const apart = (stop, value) => (stop > 0 && value > 0 ? Math.log(stop / value) : stop - value);
    return { row, show, range, box };
  }

  function choice(id, title, options, set) {
    const select = element("select", { id, onchange: () => set(select.value) });
    for (const [value, text] of Object.entries(options)) select.append(element("option", { value, text }));
    const row = element("div", { class: "explorer-choice" }, element("label", { for: id, text: title }), select);
    return { row, select };
  }

  return { element, slider, choice };
})();
