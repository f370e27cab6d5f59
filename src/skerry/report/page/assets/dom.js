/** Elements and controls. Text goes in as text, never as HTML. */
Skerry.dom = (() => {
  const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;
  const LONG = 32;
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

  // Terms are explained where they stand: table headings, and the first occurrence in a text.

  const INLINE = ["s2s", "s2a", "blend", "sampled", "period", "cell", "island", "disagreement", "bias", "stepsize", "one_each", "per_component"];
  const SYMBOLS = { sampled: "\\bK\\b", period: "\\bH\\b" };
  const meanings = new Map();
  const listed = [];
  let inline = [];

  const allTerms = () => listed.sort(([a], [b]) => a.localeCompare(b, "en"));

  function plain(text) {
    return String(text).replace(/\s*\([^)]*\)/g, "").replace(/\s+/g, " ").trim();
  }

  /** A symbol of one letter keeps its case: K is not k. */
  const keyOf = (name) => (name.length > 1 ? name.toLowerCase().replace(/_/g, " ") : name);

  /** Learn the terms of the glossary, and those of the measures and fields of these runs. */
  function explain(glossary, model, asked) {
    const terms = glossary.filter(({ term }) => term), byName = new Map(terms.map((one) => [one.term, one]));
    for (const { measure, meaning } of glossary) {
      const shown = model?.measures.find(({ name }) => name === measure), known = byName.get(measure);
      if (!shown) continue;
      if (known) Object.assign(known, { also: [...known.also, shown.title], meaning: `${known.meaning} ${meaning}` });
      else terms.push({ term: shown.title, also: [measure], meaning });
    }
    if (asked) {
      const parts = asked.measures.map((name) => model.measures.find((one) => one.name === name)?.title ?? name);
      terms.push({ term: asked.goal_text, also: [], meaning: `The goal of the advice${parts.length > 1 ? ": the mean of" : ","} ${parts.join(" and ")}.` });
    }
    for (const { short, meaning } of model?.axes ?? []) if (meaning) terms.push({ term: short, also: [], meaning });
    for (const { term, also, meaning } of terms) {
      if (![term, ...also].some((name) => meanings.has(keyOf(plain(name))))) listed.push([[term, ...also.filter((name) => name.length === 1)].join(", "), meaning]);
      for (const name of [term, ...also]) {
        const key = keyOf(plain(name));
        if (key && !meanings.has(key)) meanings.set(key, `${term}: ${meaning}`);
      }
    }
    inline = INLINE.map((term) => ({
      term, meaning: meaningOf(term), found: new RegExp(SYMBOLS[term] ?? `\\b${term}s?\\b`, "i".repeat(!SYMBOLS[term])),
    })).filter(({ meaning }) => meaning);
  }

  /** The meaning of a term, a symbol or a heading; undefined if the page has none. */
  function meaningOf(text) {
    const key = keyOf(plain(text));
    return meanings.get(key) ?? meanings.get(key.replace(/s$/, ""));
  }

  /** Text as nodes: make("p", {}, ...glossed("S2S keeps the average")). */
  function glossed(text, left = inline) {
    const places = left
      .map((one) => ({ ...one, place: one.found.exec(text) }))
      .filter(({ place }) => place)
      .sort((a, b) => a.place.index - b.place.index);
    if (!places.length) return [text];
    const [{ term, meaning, place: { index, 0: word } }] = places, end = index + word.length;
    const told = make("abbr", { title: meaning }, word);
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
    const heads = header.map((one, i) => cell("th", explained(one), sides[i]));
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

  function explained(heading) {
    const title = meaningOf(heading);
    return title ? make("abbr", { title }, heading) : heading;
  }

  /** A hint is shown above tables that are wider than the page. */
  const looks = new WeakMap();
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => looks.get(target)()));

  function cell(tag, content, side) {
    const number = side === "r";
    const kind = number ? "number" : content.length > LONG ? "long" : null;
    return make(tag, { class: kind, dir: number ? null : "auto" }, content);
  }

  return { make, upright, explain, allTerms, meaningOf, glossed, select, tick, slider, controls, figure, table };
})();
