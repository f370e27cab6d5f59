/** The picture of an advice: score against cost, from no server upward. */
Skerry.widgets.advice = (root, data, page) => {
  const { figure } = Skerry.dom;
  const { plusMinus } = Skerry.numbers;
  const { question: { budget = null, ...asked }, curve, confirmed, searched, points, best, title, style, axis: scoreTitle = title } = data;
  const WIDE = 30;  // with costs further apart than this, the axis is logarithmic
  const picture = figure("", "advice-curve");
  root.append(picture.element);

  const all = [...confirmed, ...searched];
  const paid = [...all.map(({ cost }) => cost), budget].filter((cost) => cost > 0);
  const [least, most] = [Math.min(...paid), Math.max(...paid)];
  const isLog = paid.length > 0 && most > WIDE * least;
  const zero = least / 3;  // where a logarithmic axis shows no cost at all
  const at = (cost) => (isLog && cost <= 0 ? zero : cost);
  const others = confirmed.filter(({ label }) => !curve.some((one) => one.label === label));
  const costWords = (cost) => Skerry.costWords(cost, asked.cost_unit);

  function told(point, kind) {
    const half = point.score.half_width ?? NaN, mean = point.score.mean;
    return `${kind ? `<b>${Skerry.plots.escape(kind)}</b><br>` : ""}${Skerry.plots.escape(point.label)}<br>` +
      `${plusMinus(style, { mean, half })} for ${costWords(point.cost)}, ${point.score.count} fresh seeds` +
      (point.behind ? `<br>behind the best (${asked.unit}): ${Skerry.behind(point.behind)}` : "");
  }

  /** Half of the 95 % interval of the distance to the best on the same seeds, in the unit of the score. */
  function half({ behind }) {
    const width = (behind?.high ?? NaN) - (behind?.low ?? NaN);
    return (width / 2) * (asked.lower_is_better ? best.score.mean / 100 : 1) || 0;
  }

  function look({ label }) {
    return page.model.points.find((one) => one.label === label) ?? { light: Skerry.plots.css("--ink"), symbol: "circle" };
  }

  function traces() {
    const soft = Skerry.plots.css("--soft"), ink = Skerry.plots.css("--ink");
    const bars = (found, color) => ({ type: "data", array: found.map(half), color, thickness: 1.5, width: 5 });
    const named = points.map((one) => ({ ...one, name: one.words, look: look(one) }));
    return [
      {
        type: "scatter", mode: "markers", name: "searched, not confirmed", visible: searched.length > 0,
        x: searched.map(({ cost }) => at(cost)), y: searched.map(({ score }) => score),
        marker: { symbol: "circle-open", size: 7, color: soft, line: { width: 1 } }, opacity: 0.75, hoverinfo: "text",
        hovertext: searched.map((one) => `${Skerry.plots.escape(one.label)}<br>${plusMinus(style, { mean: one.score, half: one.error ?? NaN })} for ${costWords(one.cost)}` +
          "<br>searched, not confirmed on fresh seeds (± is a standard error)"),
      },
      {
        type: "scatter", mode: "markers", name: "confirmed, not better than a cheaper one", visible: others.length > 0,
        x: others.map(({ cost }) => at(cost)), y: others.map(({ score }) => score.mean), error_y: bars(others, soft),
        marker: { color: soft, size: 7 }, hoverinfo: "text", hovertext: others.map((point) => told(point)),
      },
      {
        type: "scatter", mode: "lines+markers", name: "confirmed on fresh seeds", x: curve.map(({ cost }) => at(cost)), y: curve.map(({ score }) => score.mean),
        error_y: bars(curve, ink), line: { color: ink, width: 2 }, marker: { color: ink, size: 8 },
        hoverinfo: "text", hovertext: curve.map((point) => told(point)),
      },
      ...named.map(({ name, point, look: { light, symbol } }) => ({
        type: "scatter", mode: "markers", name, x: [at(point.cost)], y: [point.score.mean], error_y: bars([point], light),
        marker: { color: light, symbol, size: 14, line: { color: ink, width: 1 } }, hoverinfo: "text", hovertext: [told(point, name)],
      })),
    ];
  }

  /** The lowest and the highest that is level with the best. */
  function band() {
    const edge = best.score.mean + (asked.lower_is_better ? 1 : -1) * asked.tolerance;
    return [edge, best.score.mean].sort((a, b) => a - b);
  }

  function shapes() {
    const found = [], accent = Skerry.plots.css("--accent"), [low, high] = band();
    found.push({ type: "rect", xref: "paper", x0: 0, x1: 1, y0: low, y1: high, fillcolor: accent, opacity: 0.15, line: { width: 0 }, layer: "below" });
    if (budget !== null) found.push({ type: "line", x0: at(budget), x1: at(budget), yref: "paper", y0: 0, y1: 1, line: { color: accent, width: 2, dash: "dash" } });
    return found;
  }

  /** The range of scores: the confirmed ones with their intervals and the band, and room around them. */
  const ends = [...confirmed.filter(({ score }) => Number.isFinite(score.mean)).flatMap((point) => [point.score.mean - half(point), point.score.mean + half(point)]), ...band()];
  const room = 0.5 * (Math.max(...ends) - Math.min(...ends) || 1);
  const range = [Math.min(...ends) - room, Math.max(...ends) + room];
  const outside = searched.filter(({ score }) => score < range[0] || score > range[1]).length;

  /** The names of the points beside them, and that of the budget. */
  function annotations() {
    const soft = Skerry.plots.css("--soft"), narrow = picture.plot.clientWidth < 560;
    const place = (cost) => (isLog ? Math.log10(at(cost)) : cost);
    const costs = [...all.map(({ cost }) => cost), ...(budget === null ? [] : [budget])].map(place);
    const middle = (Math.min(...costs) + Math.max(...costs)) / 2, ink = Skerry.plots.css("--ink");
    const apart = (narrow ? 0.45 : 0.2) * (Math.max(...costs) - Math.min(...costs)), taken = [];
    const found = points.filter(({ point }) => Number.isFinite(point.score.mean)).flatMap(({ point, words: name }) => {
      const isLeft = place(point.cost) <= middle, lines = Skerry.plots.escape(name).replace(" (", "<br>(");
      const words = narrow ? lines.replace(/ (that|which) is/, "<br>$1 is") : lines;
      const hasRoom = point.score.mean > (range[0] + range[1]) / 2;  // there is more room above than below
      const isHigh = hasRoom !== taken.some((one) => one.isHigh === hasRoom && Math.abs(one.x - place(point.cost)) < apart);
      taken.push({ isHigh, x: place(point.cost) });
      return [{
        text: words, x: place(point.cost), y: point.score.mean, ax: (narrow ? 16 : 34) * (isLeft ? 1 : -1), ay: isHigh ? -44 : 44,
        bgcolor: `${Skerry.plots.css("--paper")}d9`,
        xanchor: isLeft ? "left" : "right", align: isLeft ? "left" : "right", arrowcolor: ink, arrowwidth: 1, arrowhead: 0, font: { size: narrow ? 11 : 13 },
      }];
    });
    if (budget !== null) found.push({
      text: `budget: ${costWords(budget)}`, x: place(budget), yref: "paper", y: 1, yanchor: "bottom", showarrow: false, font: { color: soft },
      xanchor: place(budget) > middle ? "right" : "left",
    });
    return found;
  }

  function costAxis() {
    const axis = { title: { text: `cost (${asked.cost_unit})` } };
    const isTimed = asked.cost_unit === "seconds" || asked.cost_unit === "joules";  // every setting costs some
    if (!isLog && isTimed && most > least) return { ...axis, range: [least - 0.06 * (most - least), most + 0.06 * (most - least)] };
    if (!isLog) return { ...axis, range: [-0.03 * most, 1.04 * most].map((end) => (paid.length ? end : Math.sign(end || 1))) };
    const powers = Array.from({ length: Math.ceil(Math.log10(most / least)) + 2 }, (_, i) => 10 ** (Math.floor(Math.log10(least)) + i));
    const nice = powers.flatMap((power) => [power, 2 * power, 5 * power]).filter((value) => value >= least && value <= 1.1 * most);
    return { ...axis, type: "log", tickvals: [zero, ...nice], ticktext: ["0", ...nice.map(Skerry.amount)] };
  }

  return {
    update() {
      const left = searched.length ? " Hollow markers were searched, but not confirmed." : "";
      const beyond = outside ? ` Of these, ${outside} of ${searched.length} lie outside the picture; double-click to see all.` : "";
      picture.tell(`${title[0].toUpperCase()}${title.slice(1)} against cost. The line joins settings confirmed on fresh seeds, from the cheapest upward. ` +
        `Bars are 95 % intervals of the distance to the best on the same seeds; the band is level with the best, within ${asked.tolerance_text}.${left}${beyond}`);
      return Skerry.plots.plot(picture.plot, traces, () => ({
        xaxis: costAxis(), yaxis: { title: { text: scoreTitle }, range }, shapes: shapes(), annotations: annotations(), showlegend: true,
        legend: { orientation: "h", x: 0, y: -0.22, yanchor: "top" }, margin: { l: 64, r: 24, t: 36, b: 48 },
      }));
    },
  };
};
