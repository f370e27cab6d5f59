/** Elements and controls. Text goes in as text, never as HTML. */
Skerry.dom = (() => {
  const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;
  const LONG = 60;
  let ids = 0;

  /** The text without characters that reverse the direction of the text after them. */
  function upright(text) {
    return String(text).replace(TURNING, "\ufffd");
  }

  /** make("p", {class: "note", dir: "auto"}, "words", child, ...) */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      element.setAttribute(name, value === true ? "" : value);
    }
    const shown = children.filter((child) => child !== null && child !== undefined);
    // Text to copy stays as it is.
    const asText = tag === "code" || tag === "script" ? String : upright;
    element.append(...shown.map((child) => (child instanceof Node ? child : asText(child))));
    return element;
  }

  // The first occurrence of each glossary term in a text has a tooltip.

  const WORDS = { S2S: /\bs2s\b/i, S2A: /\bs2a\b/i, blend: /\bblend\b/i, K: /\bK\b/, H: /\bH\b/, cell: /\bcells?\b/ };
  let meanings = [];

  function explain(glossary) {
    meanings = glossary.map(([term, meaning]) => ({ term, meaning, found: WORDS[term] }));
  }

  /** Text as nodes: make("p", {}, ...glossed("S2S keeps the average")). */
  function glossed(text, left = meanings) {
    const places = left
      .map((one) => ({ ...one, place: one.found.exec(text) }))
      .filter(({ place }) => place)
      .sort((a, b) => a.place.index - b.place.index);
    if (!places.length) return [text];
    const [{ term, meaning, place: { index, 0: word } }] = places, end = index + word.length;
    const told = make("abbr", { title: `${term}: ${meaning}` }, word);
    return [text.slice(0, index), told, ...glossed(text.slice(end), left.filter((one) => one.term !== term))];
  }

  function field(label, control, kind = "") {
    control.id ||= `control-${++ids}`;
    return make("div", { class: `field ${kind}` }, make("label", { for: control.id }, label), control);
  }

  /** A labelled select; `options` are [value, text] pairs. */
  function select(label, options, chosen, onChange) {
    const control = make("select");
    for (const [value, text] of options) control.append(make("option", { value }, text));
    control.value = String(chosen);
    control.addEventListener("change", () => onChange(control.value));
    return field(label, control);
  }

  function tick(label, checked, onChange) {
    const control = make("input", { type: "checkbox", id: `control-${++ids}` });
    control.checked = checked;
    control.addEventListener("change", () => onChange(control.checked));
    return make("div", { class: "tick" }, control, make("label", { for: control.id }, label));
  }

  function slider(label, count, onInput) {
    const control = make("input", { type: "range", min: 0, max: count - 1, step: 1, value: 0 });
    control.addEventListener("input", () => onInput(Number(control.value)));
    return field(label, control, "wide");
  }

  function controls(...fields) {
    return make("div", { class: "controls" }, ...fields);
  }

  function figure(caption, kind = "") {
    const plot = make("div", { class: `plot ${kind}`, role: "img" });
    const words = make("figcaption", { dir: "auto" });
    const element = make("figure", {}, words, plot);
    const tell = (text) => {
      words.textContent = upright(text);
      plot.setAttribute("aria-label", upright(text));
    };
    tell(caption);
    return { element, plot, tell };
  }

  /** Cells are text, or elements; `sides` has an l or r for each column. */
  function table(title, header, rows, sides) {
    const body = make("tbody");
    for (const row of rows) body.append(make("tr", {}, ...row.map((one, i) => cell("td", one, sides[i]))));
    const heads = header.map((one, i) => cell("th", one, sides[i]));
    heads.forEach((one) => one.setAttribute("scope", "col"));
    const caption = make("p", { class: "caption", dir: "auto", id: `caption-${++ids}` }, title);
    const whole = make("table", { "aria-labelledby": caption.id }, make("thead", {}, make("tr", {}, ...heads)), body);
    const scroll = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": caption.id }, whole);
    const hint = make("p", { class: "hint", hidden: true }, "This table continues to the right: scroll sideways →");
    const look = () => { hint.hidden = scroll.scrollWidth <= scroll.clientWidth + 1; };
    sizes.observe(scroll);
    looks.set(scroll, look);
    return make("div", {}, caption, hint, scroll);
  }

  /** A hint is shown above tables that are wider than the page. */
  const looks = new WeakMap();
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => looks.get(target)()));

  function cell(tag, content, side) {
    const number = side === "r";
    const kind = number ? "number" : content.length > LONG ? "long" : null;
    return make(tag, { class: kind, dir: number ? null : "auto" }, content);
  }

  return { make, upright, explain, glossed, select, tick, slider, controls, figure, table };
})();
