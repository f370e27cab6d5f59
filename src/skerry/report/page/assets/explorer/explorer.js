/* The theory explorer: the bounds as sliders and curves. */
"use strict";

const SkerryExplorer = (() => {
  const { total, digits, mapValues } = SkerryArithmetic;
  const { SLIDERS, BETA, MORE, AXES, spec, limits, setting, changed } = SkerrySettings;
  const { NAMES, number, percent, verdict, unitOf, notes, command } = SkerryExplorerWords;
  const { MEASURES, exploration } = SkerryExploration;
  const { element, slider, choice } = SkerryControls;

  const MODES = {
    order: "order: all constants set to one",
    printed: "printed: the paper's constants",
    repaired: "repaired: corrected constants",
    certified: "certified: computed numerically, with blend",
  };
  const SELECTIONS = {
    uniform: "uniform: any K devices",
    per_component: "per_component: each island by size",
    one_each: "one_each: equally many per island",
  };
  const SOURCES = {
    experiment: "from the experiment",
    network: "from the network",
    advice: "from the advice",
    measured: "measured by skerry advise",
    assumed: "assumed",
  };
  const TERMS = {
    initial: "initial error", noise: "gradient noise", intra: "disagreement inside islands", inter: "disagreement between islands",
    sampling_intra: "sampling inside islands", sampling_inter: "sampling between islands",
  };
  const SLICE = 25; // milliseconds of computing before the page may answer again

  let mounted = 0;

  function table(x, answers, mode, { colours, meaningOf = () => undefined }) {
    const terms = Object.keys(TERMS).filter((term) => Object.values(answers).some((one) => term in one.terms));
    const head = ["", "rounds", unitOf(x), ...terms.map((term) => TERMS[term])];
    const shares = mode === "order" ? "the rounds" : "the final error";
    const caption = element("caption", { text: `Results at this setting. The columns on the right are the shares of ${shares} by cause.` });
    const cell = (text) => element("td", { text });
    const rows = Object.values(answers).map((answer) => {
      const name = element("th", { scope: "row", text: label(answer) });
      name.style.setProperty("--explorer-colour", colours[answer.primitive]);
      const sum = total(Object.values(answer.terms));
      const parts = terms.map((term) => (term in answer.terms && sum < Infinity ? percent(answer.terms[term] / sum) : "-"));
      return element("tr", {}, name, ...[number(answer.rounds), number(answer.messages), ...parts].map(cell));
    });
    const heading = (text) => {
      const title = meaningOf(text) ?? (text === unitOf(x) ? meaningOf("cost") : undefined);
      return element("th", { scope: "col" }, title ? element("abbr", { title, text }) : text);
    };
    const titles = head.map(heading);
    return element("table", {}, caption, element("thead", {}, element("tr", {}, ...titles)), element("tbody", {}, ...rows));
  }

  const label = (answer) =>
    answer.primitive === "blend" ? `blend, β ${digits(answer.beta, 3)}` : NAMES[answer.primitive];

  /* Traces and layout of one picture, for plotly. */
  function picture(measure, { here, curve, crossings }, { x, axis }, colours) {
    const one = spec(axis), finite = (value) => (Number.isFinite(value) && value > 0 ? value : null);
    const traces = Object.keys(here).map((primitive) => ({
      type: "scatter", mode: "lines", name: NAMES[primitive], line: { color: colours[primitive], width: 2 },
      x: curve.map((point) => point.value), y: curve.map((point) => finite(point[primitive][measure])),
      hovertemplate: `%{x:.4~g}: %{y:.4~g}<extra>${NAMES[primitive]}</extra>`,
    }));
    traces.push({
      type: "scatter", mode: "markers", name: "this setting", showlegend: false, hoverinfo: "skip",
      x: Object.keys(here).map(() => x[axis]),
      y: Object.values(here).map((answer) => finite(answer[measure])),
      marker: { size: 9, color: Object.keys(here).map((primitive) => colours[primitive]) },
    });
    const swaps = crossings ? crossings[measure] : [];
    traces.push({
      type: "scatter", mode: "markers+text", name: "the winner changes", visible: swaps.length > 0,
      x: swaps.map((swap) => swap.value), y: swaps.map((swap) => swap.level),
      text: swaps.map((swap) => swap.text), textposition: "top right", cliponaxis: false,
      marker: { symbol: "diamond-open", size: 11, color: colours.none, line: { width: 2 } },
      hovertemplate: "the winner changes at %{text}<extra></extra>",
    });
    const scale = { type: "log", exponentformat: "power" };
    const layout = {
      height: 340, margin: { l: 64, r: 16, t: 36, b: 48 },
      xaxis: { ...scale, range: limits(one, x).map(Math.log10), title: { text: `${one.label} (${one.symbol})` } },
      yaxis: { ...scale, title: { text: measure === "messages" && x.unit ? `${x.unit}, at the prices of the advice` : MEASURES[measure] } },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    };
    return [traces, layout];
  }

  /* Build the explorer inside `root`. */
  function mount(root, start, tools) {
    const id = (name) => `explorer-${prefix}-${name}`, prefix = ++mounted;
    const asked = { x: { ...start.values }, mode: start.mode ?? "order", convex: false, axis: "epsilon", beta: "best", betaOfSlider: start.values.beta, selection: start.values.selection };
    const said = element("p", { class: "explorer-verdict", "aria-live": "polite" });
    const figures = mapValues(MEASURES, (title) => element("div", { class: "explorer-figure", role: "img", "aria-label": `${title} along the chosen axis` }));
    const numbers = element("div", { class: "explorer-numbers", tabindex: "0", role: "region", "aria-label": "numbers at this setting" });
    const told = element("ul", { class: "explorer-notes" });
    const shell = element("code");
    const set = (change) => {
      Object.assign(asked, change);
      refresh();
    };
    const make = (one) =>
      slider(one, id(one.name), SOURCES[start.sources[one.name]] ?? "", own(one.name), (value) => set({ x: changed(asked.x, one.name, value) }));
    const own = (name) => (Array.isArray(start.values[name]) ? start.values[name].length : start.values[name]);
    const sliders = SLIDERS.map(make), more = MORE.map(make);
    const beta = slider(BETA, id("beta"), SOURCES[start.sources.beta] ?? "", own("beta"), (value) => set({ betaOfSlider: value, beta: value }));
    const best = element("input", { type: "checkbox", id: id("best"), onchange: () => set({ beta: best.checked ? "best" : asked.betaOfSlider }) });
    const blend = element("div", { class: "explorer-blend" }, beta.row, element("label", { for: id("best") }, best, " use the best β"));
    const axes = Object.fromEntries(AXES.map((name) => [name, `${spec(name).label} (${spec(name).symbol})`]));
    const choices = [
      choice(id("mode"), "Bound", MODES, (mode) => set({ mode })),
      choice(id("loss"), "Loss", { any: "any smooth f", convex: "convex f" }, (loss) => set({ convex: loss === "convex" })),
      choice(id("axis"), "Along", axes, (axis) => set({ axis })),
      choice(id("selection"), "Sampling", SELECTIONS, (selection) => set({ selection })),
    ];
    const sampling = choices[choices.length - 1];
    const reset = element("button", { type: "button", text: "Reset to the experiment", onclick: () => set({ x: { ...start.values }, betaOfSlider: start.values.beta, beta: "best", selection: start.values.selection }) });
    for (const { row } of [...sliders, ...more, beta]) {
      const title = row.querySelector("label"), [words, symbol] = [...title.childNodes].map((node) => node.textContent.trim());
      title.title = tools.meaningOf?.(symbol) ?? tools.meaningOf?.(words) ?? "";
    }
    root.classList.add("explorer");
    root.replaceChildren(
      said,
      element("div", { class: "explorer-choices" }, ...choices.map(({ row }) => row), reset),
      element("div", { class: "explorer-sliders" }, ...sliders.map(({ row }) => row), blend),
      element("details", { class: "explorer-more" }, element("summary", { text: "Constants of the problem" }),
        element("div", { class: "explorer-sliders" }, ...more.map(({ row }) => row))),
      element("div", { class: "explorer-figures" }, ...Object.values(figures)),
      numbers, told,
      element("p", { class: "explorer-command", text: "On the command line: " }, shell)
    );

    let turn = 0;
    async function refresh() {
      const mine = ++turn, frozen = { ...asked, x: setting(asked) };
      for (const one of [...sliders, ...more]) one.show(frozen.x);
      beta.show({ ...frozen.x, beta: frozen.betaOfSlider });
      best.checked = frozen.beta === "best";
      sampling.select.value = frozen.selection;
      choices[0].select.value = frozen.mode;
      blend.hidden = sampling.row.hidden = frozen.mode !== "certified";
      shell.textContent = command(frozen.x, frozen.mode, frozen.convex, frozen.beta);
      await pause(); // several events of one gesture need only one answer
      let since = performance.now(), last = null;
      for (const piece of exploration(frozen)) {
        last = piece;
        if (performance.now() - since < SLICE) continue;
        if (mine !== turn) return;
        draw(frozen, piece);
        await pause();
        since = performance.now();
      }
      if (mine === turn) draw(frozen, last);
    }
    function draw(frozen, piece) {
      if (piece.here.blend && frozen.beta === "best") beta.show({ ...frozen.x, beta: digits(piece.here.blend.beta, 3) }, "the best value");
      say(said, (start.prefix ?? "") + verdict(frozen.x, piece.here, frozen.mode));
      numbers.replaceChildren(table(frozen.x, piece.here, frozen.mode, tools));
      told.replaceChildren(...notes(start, frozen, piece.here).map((text) => element("li", { text })));
      for (const measure of Object.keys(figures))
        tools.plot(figures[measure], ...picture(measure, piece, frozen, tools.colours));
    }
    return refresh();
  }

  const pause = () => new Promise((resolve) => setTimeout(resolve, 0));

  /* Screen readers read only text that has changed. */
  function say(where, text) {
    if (where.textContent !== text) where.textContent = text;
  }

  return { mount };
})();
