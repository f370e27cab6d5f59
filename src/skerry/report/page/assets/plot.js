/** Drawing: Plotly with the page's theme. Traces name the colours of the light page; on the dark
 * page each is drawn in its counterpart, and all plots are drawn anew when the theme changes.
 * Traces and layout may be functions, where they ask for colours of the page (`css`) themselves. */
Skerry.plots = (() => {
  const COLOUR = /^#[0-9a-f]{6}([0-9a-f]{2})?$/i;
  const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  const drawn = new Map();
  let counterparts = new Map();

  function useColours(model) {
    const all = [...model.points, ...model.labels, ...model.islands, ...Object.values(model.primitives)];
    counterparts = new Map(all.map((one) => [one.light.toLowerCase(), one.dark]));
  }

  function isDark() {
    return document.documentElement.dataset.shade === "dark";
  }

  function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  /** Escape what Plotly would read as markup. */
  function escape(text) {
    return Skerry.dom.upright(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  /** A name that is short enough for a plot; tables have the full name. */
  function brief(text, most = 32) {
    const characters = [...String(text)];
    return escape(characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : text);
  }

  function faded(colour, alpha = "2e") {
    return colour + alpha;
  }

  /** Bars for the intervals of several means. */
  function bars(found, measure, look) {
    const reaches = found.map((one) => Skerry.numbers.reach(one, measure));
    const [array, arrayminus] = ["above", "below"].map((side) => reaches.map((one) => one[side]));
    return { type: "data", symmetric: false, array, arrayminus, ...look };
  }

  /** The values of a line, broken where the curve has a hole (nothing was measured). */
  function holed({ hole }, values) {
    return hole ? [...values.slice(0, hole), null, ...values.slice(hole)] : values;
  }

  /** The range of percentages: the first rounds climb from chance level; most of the height is for the later ones. */
  function heights(curves) {
    const later = curves.flatMap(({ mean, rounds }) => mean.filter((_, i) => rounds[i] >= 0.1 * rounds.at(-1)));
    const [low, high] = later.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [100, 0]);
    const room = 0.15 * Math.max(1, high - low);
    return [Math.max(0, low - room), Math.min(101, high + room)];
  }

  function recoloured(value) {
    if (typeof value === "string") {
      if (!COLOUR.test(value)) return value;
      const dark = counterparts.get(value.slice(0, 7).toLowerCase());
      return dark ? dark + value.slice(7) : value;
    }
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(recoloured);
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, recoloured(one)]));
  }

  function isNarrow() {
    return window.innerWidth < 640;
  }

  function axis(given = {}) {
    const line = css("--line"), font = { size: isNarrow() ? 11 : 13 };
    return {
      gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true,
      tickfont: { color: css("--soft") }, exponentformat: "power", ...given,
      ...(given.title ? { title: { standoff: 8, font, ...given.title } } : {}),
    };
  }

  function themed(layout) {
    const ink = css("--ink"), paper = css("--paper");
    const narrow = isNarrow();
    const axes = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
    for (const name of ["xaxis", "yaxis"]) if (!axes.includes(name)) axes.push(name);
    return {
      margin: { l: narrow ? 48 : 64, r: 16, t: 16, b: 48 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" },
      hovermode: "closest",
      dragmode: narrow ? false : "zoom",
      ...layout,
      ...Object.fromEntries(axes.map((name) => [name, axis(layout[name])])),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: ink, family: "system-ui, sans-serif", size: 13 },
      hoverlabel: { bgcolor: paper, bordercolor: css("--soft"), font: { color: ink }, align: "left" },
    };
  }

  function current(given) {
    const value = typeof given === "function" ? given() : given;
    return isDark() ? recoloured(value) : value;
  }

  function show(element, traces, layout) {
    const config = { ...CONFIG, displayModeBar: isNarrow() ? false : "hover" };
    return Plotly.react(element, current(traces), themed(current(layout)), config);
  }

  function plot(element, traces, layout = {}) {
    drawn.set(element, [traces, layout]);
    return show(element, traces, layout);
  }

  function redraw() {
    for (const [element, [traces, layout]] of drawn) show(element, traces, layout);
  }

  /** A colour-blind-safe scale from blue to yellow (cividis), for values that have an order. */
  const ORDERED = ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"];

  /** A colour of the scale that has contrast with the background. */
  function ordered(value) {
    const share = isDark() ? 0.35 + 0.65 * value : 0.8 * value;
    const place = share * (ORDERED.length - 1), i = Math.min(Math.floor(place), ORDERED.length - 2);
    const mix = (a, b) => Math.round(a + (b - a) * (place - i));
    const part = (colour, k) => parseInt(colour.slice(1 + 2 * k, 3 + 2 * k), 16);
    const rgb = [0, 1, 2].map((k) => mix(part(ORDERED[i], k), part(ORDERED[i + 1], k)));
    return `#${rgb.map((one) => one.toString(16).padStart(2, "0")).join("")}`;
  }

  return { plot, redraw, bars, holed, heights, useColours, escape, brief, faded, ordered, isDark, css };
})();
