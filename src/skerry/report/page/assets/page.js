/** Builds the page: sections from their blocks, shared controls, themes. */
Skerry.page = (() => {
  const { make, glossed, select, controls, table } = Skerry.dom;
  const root = document.documentElement;
  const widgets = [];
  let latest = 0;

  // How each kind of block is shown; see blocks.py.
  const PIECES = {
    text: (piece) => make("p", { dir: "auto" }, ...glossed(piece.words)),
    note: (piece) => make("p", { dir: "auto", class: `note ${piece.tone}` }, piece.words),
    bullets: (piece) => make("ul", {}, ...piece.lines.map((line) => make("li", { dir: "auto" }, ...glossed(line)))),
    facts: (piece) => make("dl", {}, ...piece.pairs.flatMap(
      ([term, words]) => [make("dt", {}, term), make("dd", { dir: "auto" }, words)])),
    table: (piece) => table(piece.title, piece.header, piece.rows, piece.sides),
    code: codeToCopy,
    advice: (piece, page) => make("div", {}, ...Skerry.advice(page.advice, page.names).map((inner) => shown(inner, page))),
    search: () => make("p", { class: "note" }, "These runs are the search of skerry advise: many settings and stepsizes, most of them on few seeds. " +
      "Wins over all of them would say little, so none are counted. The sections below show the points of the advice over all of their seeds, or a cell of the search."),
    axes: (piece, { model }) => table("What varies", ["field", "values"], model.axes.map(({ short, words }) => [short, someOf(words)]), "ll"),
    terms: () => make("dl", {}, ...Skerry.dom.allTerms().flatMap(
      ([term, meaning]) => [make("dt", { dir: "auto" }, term), make("dd", { dir: "auto" }, meaning)])),
    folded: (piece, page) => make("details", {}, make("summary", {}, piece.title),
      ...piece.blocks.map((inner) => shown(inner, page))),
    widget: (piece, page) => {
      const element = make("div", { class: `widget ${piece.widget}` });
      widgets.push({ element, piece, page });
      return element;
    },
  };

  function someOf(words, most = 24) {
    return words.slice(0, most).join(", ") + (words.length > most ? `, and ${(words.length - most).toLocaleString("en-US")} more` : "");
  }

  function shown(piece, page) {
    return PIECES[piece.kind](piece, page);
  }

  function codeToCopy(piece) {
    const button = make("button", { type: "button" }, "Copy");
    const said = make("span", { class: "visually-hidden", role: "status" });
    const content = make("code", {}, piece.content);
    button.setAttribute("aria-label", `Copy: ${piece.title}`);
    button.addEventListener("click", async () => {
      const done = await copied(content);
      button.textContent = said.textContent = done ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    const pre = make("pre", { tabindex: 0, "aria-label": piece.title }, content);
    return make("div", { class: "code" }, pre, button, said);
  }

  /** Copy to the clipboard. If the browser forbids it, the text stays selected. */
  async function copied(element) {
    try {
      await navigator.clipboard.writeText(element.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(element);
      return document.execCommand("copy");
    }
  }

  function section({ name, title, blocks }, page) {
    const heading = make("h2", { id: `${name}-title` }, title);
    return make("section", { id: name, "aria-labelledby": heading.id }, heading,
      ...blocks.map((piece) => shown(piece, page)));
  }

  function contents(sections) {
    const links = sections.map(({ name, title }) => make("li", {}, make("a", { href: `#${name}` }, title)));
    document.getElementById("contents").append(make("ul", {}, ...links));
  }

  const FIRST = ["s2s", "s2a", "blend", "K", "H", "cell"];

  /** The answer, and the terms in it, which are open on wide screens unless there is an advice. */
  function opening({ answer, advice }) {
    const told = document.getElementById("answer"), words = document.getElementById("words");
    told.append(...glossed(answer));
    told.hidden = !answer;
    const pairs = FIRST.map((term) => [term, Skerry.dom.meaningOf(term).replace(/^.*?: /, "")]);
    words.append(make("dl", {}, ...pairs.flatMap(([term, meaning]) => [make("dt", {}, term), make("dd", {}, meaning)])),
      make("p", {}, "All words of this page: ", make("a", { href: "#terms" }, "Terms"), "."));
    words.open = window.innerWidth >= 640 && !advice;
    words.hidden = !answer;
  }

  // The measure and the cell that all sections show

  function sharedControls(page) {
    const { model, grid } = page;
    const form = document.getElementById("controls");
    form.addEventListener("submit", (event) => event.preventDefault());
    const measures = model.measures.map((measure, i) => [i, measure.title]);
    const fields = [select("Measure", measures, grid.state.measure, (value) => {
      grid.state.measure = Number(value);
      changed();
    })];
    const axes = model.axes.map((axis, i) => axisControl(page, axis, i));
    const show = (points) => axes.forEach((field) => { field.hidden = points; });
    if (model.points.length) {
      const views = [["points", "the points of the advice"], ["cell", "one cell of the search"]];
      fields.push(select("Shown", views, "points", (value) => {
        grid.state.points = value === "points";
        show(grid.state.points);
        changed();
      }));
    }
    show(grid.state.points);
    form.append(controls(...fields, ...axes));
    form.hidden = false;
  }

  function axisControl({ model, grid }, axis, i) {
    const options = axis.words.map((words, value) => [value, words]);
    const tuned = i === model.tuned && grid.state.best;
    if (tuned) options.unshift(["best", "best for each primitive"]);
    return select(axis.short, options, tuned ? "best" : grid.state.place[i], (value) => {
      if (i === model.tuned) grid.state.best = value === "best";
      if (value !== "best") grid.state.place[i] = Number(value);
      changed();
    });
  }

  // Widgets are mounted one after another, visible ones first, so that the page stays responsive

  function inView({ element }) {
    const box = element.getBoundingClientRect();
    return box.top < window.innerHeight && box.bottom > 0;
  }

  async function refresh(every) {
    const mine = ++latest;
    const order = [...widgets].sort((a, b) => inView(b) - inView(a));
    for (const widget of order) {
      if (mine !== latest) return;
      widget.stale ||= every;
      if (!widget.stale) continue;
      await brought(widget);
      if (mine === latest) widget.stale = false;
      await new Promise((resume) => setTimeout(resume));
    }
    root.dataset.ready = "all";
  }

  /** Mount and update a widget. An error is shown in its place and does not affect other widgets. */
  async function brought(widget) {
    try {
      widget.mounted ??= await Skerry.widgets[widget.piece.widget](widget.element, widget.piece.data, widget.page);
      await widget.mounted?.update?.();
    } catch (error) {
      console.error(error);
      widget.element.replaceChildren(make("p", { class: "note warning" }, `This part cannot be shown: ${error.message}`));
    }
  }

  function changed() {
    root.dataset.ready = "";
    return refresh(true);
  }

  // Light and dark

  const system = matchMedia("(prefers-color-scheme: dark)");

  function shade() {
    const asked = root.dataset.theme;
    root.dataset.shade = asked === "auto" ? (system.matches ? "dark" : "light") : asked;
  }

  function themes() {
    const control = document.getElementById("theme");
    const use = (theme) => {
      root.dataset.theme = theme;
      shade();
      Skerry.plots.redraw();
    };
    control.addEventListener("change", () => use(control.value));
    system.addEventListener("change", () => use(root.dataset.theme));
    // Printed pages are light.
    window.addEventListener("beforeprint", () => use("light"));
    window.addEventListener("afterprint", () => use(control.value));
  }

  /** Plotly is stored compressed. Its hash is in the page's policy, so that no other script can run. */
  async function loadPlotly() {
    document.head.append(make("script", {}, await Skerry.data.textOf("plotly")));
  }

  async function start() {
    shade();
    const main = document.getElementById("main");
    const data = Skerry.data.json("data"), { sections, model, advice } = data, names = advice ? Skerry.pointNames(advice) : new Map();
    Skerry.dom.explain(data.terms, model, advice?.question);
    opening(data);
    const page = { model, advice, names, grid: model && Skerry.grid(model, names) };
    contents(sections);
    main.append(...sections.map((one) => section(one, page)));
    themes();
    if (!model) return;
    if (typeof DecompressionStream === "undefined") {
      main.prepend(make("p", { class: "note warning" }, "The plots need a browser from 2023 or newer."));
      return;
    }
    Skerry.plots.useColours(model);
    sharedControls(page);
    await loadPlotly();
    await refresh(true);
  }

  return { start };
})();

Skerry.page.start();
