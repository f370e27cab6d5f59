/** The islands with their links, and the devices that the server samples in a chosen round. */
Skerry.widgets.network = (root, data, page) => {
  const { make, slider, controls, figure } = Skerry.dom;
  const { model, grid } = page;
  const MOST_NAMES = 40;  // devices whose names are written beside them
  const view = { network: undefined, samples: null, rounds: [], step: 0 };
  const picture = figure("", "square");
  const steps = make("div"), told = make("p", { class: "status", role: "status" });
  root.append(steps, told, picture.element);

  function links({ places, links: ends }) {
    const x = [], y = [];
    for (let i = 0; i < ends.length; i += 2) {
      const [a, b] = [places[ends[i]], places[ends[i + 1]]];
      x.push(a[0], b[0], null);
      y.push(a[1], b[1], null);
    }
    return {
      type: "scatter", mode: "lines", x, y, hoverinfo: "skip", showlegend: false,
      line: { color: Skerry.plots.css("--soft"), width: 0.7 }, opacity: 0.55,
    };
  }

  const islandName = (network, device) => Skerry.plots.escape(network.islands[device]);

  function devices(network, sampled) {
    const room = Math.min(1, picture.plot.clientWidth / 700);
    const size = Math.max(3, room * Math.min(15, 150 / Math.sqrt(network.devices)));
    const is = network.places.map((_, device) => sampled.has(device));
    const isNamed = network.devices <= MOST_NAMES && network.labels.some((name, device) => name !== String(device));
    return {
      type: "scatter", mode: isNamed ? "markers+text" : "markers", showlegend: false, hoverinfo: "text",
      text: isNamed ? network.labels.map((name) => Skerry.plots.brief(name, 14)) : undefined, textposition: "top center", textfont: { size: 11 }, cliponaxis: false,
      x: network.places.map(([x]) => x), y: network.places.map(([, y]) => y),
      marker: {
        opacity: 1, size: is.map((one) => (one ? 1.25 * size : size)),
        color: network.island.map((c) => model.islands[c % model.islands.length].light),
        line: { color: is.map((one) => Skerry.plots.css(one ? "--ink" : "--paper")), width: is.map((one) => (one ? 2.5 : 0.5)) },
      },
      hovertext: network.places.map((_, device) => Skerry.plots.escape(`device ${network.labels[device]}`) +
        `<br>island ${islandName(network, device)}${is[device] ? "<br>sampled" : ""}`),
    };
  }

  /** The name in the middle of every island that has one, if they are few. */
  function islandNames({ island, islands, places }) {
    const members = new Map();
    island.forEach((c, device) => members.set(c, [...(members.get(c) ?? []), device]));
    if (members.size > 16 || islands.every((name, device) => name === String(island[device]))) return [];
    return [...members.values()].map((devices) => {
      const mean = (k) => devices.reduce((sum, device) => sum + places[device][k], 0) / devices.length;
      return { text: Skerry.plots.brief(islands[devices[0]], 20), x: mean(0), y: mean(1), showarrow: false };
    });
  }

  /** By round, whom the server samples in a group; null where that is not known. */
  function samplesOf(group) {
    const own = data.samplesOf[group];
    if (own === null) return null;
    if (own >= 0) return (round) => data.samples[own][round - 1];
    const orders = data.orders[view.network.devices];
    return (round) => orders[round - 1]?.slice(0, model.groups.sampled[group]);
  }

  function sampledNow() {
    const round = view.rounds[view.step];
    return round === undefined ? [] : view.samples(round);
  }

  function tell(sampled) {
    const { network } = view, count = new Map();
    for (const device of [...sampled].sort((a, b) => a - b)) count.set(network.islands[device], (count.get(network.islands[device]) ?? 0) + 1);
    const split = [...count].map(([island, many]) => `${many} on island ${island}`);
    const where = split.slice(0, 8).join(", ") + (split.length > 8 ? ", ..." : "");
    const nobody = view.rounds.length ? `In round ${view.rounds[view.step]} no device is available.` : "There is no server in these runs.";
    told.textContent = !view.samples ? "The sampled devices are not drawn, because they depend on data, models or your own selection rule." : sampled.length
      ? `In round ${view.rounds[view.step]} the server samples ${sampled.length} of ${network.devices} devices: ${where}. ` +
        "With S2S, only these receive the average; with S2A and blend, all devices do."
      : nobody;
    const shown = network.links.length / 2, number = (count) => count.toLocaleString("en-US");
    const some = shown < network.linksInAll ? `; ${number(shown)} of ${number(network.linksInAll)} links are drawn` : "";
    picture.tell(`${network.name}${some}${network.fixed ? "" : "; the links are those of round 1 and change later"}.`);
  }

  function draw() {
    const sampled = sampledNow();
    tell(sampled);
    const bare = { visible: false, showgrid: false, zeroline: false };
    return Skerry.plots.plot(picture.plot, () => [links(view.network), devices(view.network, new Set(sampled))], {
      xaxis: bare, yaxis: { ...bare, scaleanchor: "x" }, margin: { l: 8, r: 8, t: 24, b: 8 }, annotations: islandNames(view.network),
    });
  }

  function offer(rounds) {
    const before = view.rounds[view.step];
    view.rounds = rounds;
    view.step = Math.max(0, rounds.indexOf(before));
    const field = slider("Server round", rounds.length, (step) => { view.step = step; draw(); });
    field.querySelector("input").value = view.step;
    steps.replaceChildren(...(rounds.length > 1 ? [controls(field)] : []));
  }

  return {
    async update() {
      const chosen = grid.chosen();
      const { group } = chosen.find((one) => grid.serverRounds(one.group).length) ?? chosen[0] ?? {};
      view.network = data.networks[data.ofCell[model.groups.cell[group]]];
      picture.element.hidden = !view.network;
      if (!view.network) {
        steps.replaceChildren();
        told.textContent = "The network of this cell is not drawn.";
        return;
      }
      view.samples = samplesOf(group);
      const rounds = view.samples ? grid.serverRounds(group).filter((round) => view.samples(round)) : [];
      if (String(rounds) !== String(view.rounds) || !steps.hasChildNodes()) offer(rounds);
      await draw();
    },
  };
};
