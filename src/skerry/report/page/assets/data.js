/** The data of the page: JSON, and arrays that are unpacked when they are first needed. */
Skerry.data = (() => {
  const HALF_LEVELS = 120, NO_HALF = 255;
  const TYPES = { u1: Uint8Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };
  const unpacked = new Map();

  function json(id) {
    return JSON.parse(document.getElementById(id).textContent);
  }

  /** Base64 of gzip, as bytes. */
  async function inflate(base64) {
    const text = atob(base64.trim());
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  async function textOf(id) {
    return new TextDecoder().decode(await inflate(document.getElementById(id).textContent));
  }

  /** Arrays by name; see packing.py for the format. */
  async function arrays(id) {
    const element = document.getElementById(`data-${id}`);
    const bytes = await inflate(element.textContent);
    const end = bytes.indexOf(10);
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
    const found = {};
    let start = end + 1;
    for (const [name, kind, length] of header) {
      const size = kind === "u2" ? 2 : TYPES[kind].BYTES_PER_ELEMENT;
      const part = bytes.slice(start, start + length * size);
      found[name] = kind === "u2" ? summedUp(part, length) : new TYPES[kind](part.buffer);
      start += length * size;
    }
    return found;
  }

  /** Differences in two planes, high bytes before low ones, back to 16-bit numbers. */
  function summedUp(bytes, length) {
    const values = new Uint16Array(length);
    let last = 0;
    for (let i = 0; i < length; i++) {
      last = (last + (bytes[i] << 8) + bytes[length + i]) & 0xffff;
      values[i] = last;
    }
    return values;
  }

  function once(id, make) {
    if (!unpacked.has(id)) unpacked.set(id, make());
    return unpacked.get(id);
  }

  /** The last values of a measure, and the verdicts: rows are groups, columns seeds. */
  function finals(measure) {
    return once(`finals-${measure}`, () => arrays(`finals-${measure}`));
  }

  function meanRatio(name) {
    return once(`mean-${name}`, () => arrays(`mean-${name}`));
  }

  /** All curves of a measure: {rounds, mean, half, hole}. `hole` is the number of points before the
      stretch in which nothing was measured, 0 if there is none. */
  function curves(model, measure) {
    return once(`curves-${measure}`, async () =>
      series(await arrays(`curves-${measure}`), model.roundSets, model.measures[measure].log));
  }

  function series(packed, roundSets, log) {
    const found = new Map();
    let start = 0;
    packed.curve.forEach((curve, i) => {
      const rounds = roundSets[packed.rounds[i]];
      const ends = { low: packed.low[i], high: packed.high[i], top: packed.top[i], hole: packed.hole[i] };
      found.set(curve, lazily(packed, start, rounds, ends, log));
      start += rounds.length;
    });
    return found;
  }

  /** Decode a curve when it is first shown: of thousands of curves, a page shows a few. */
  function lazily(packed, start, rounds, { low, high, top, hole }, log) {
    const first = log ? 1 : 0, step = (high - low) / (packed.levels[0] - first);
    return () => {
      const mean = new Array(rounds.length), half = new Array(rounds.length);
      for (let i = 0; i < rounds.length; i++) {
        mean[i] = value(packed.mean[start + i], low, step, log);
        const code = packed.half[start + i];
        const share = code === NO_HALF ? NaN : top * (code / HALF_LEVELS) ** 2;
        half[i] = log ? share * mean[i] : share;
      }
      return { rounds, mean, half, hole };
    };
  }

  function value(code, low, step, log) {
    if (!log) return low + code * step;
    return code === 0 ? 0 : 10 ** (low + (code - 1) * step);
  }

  return { json, textOf, finals, curves, meanRatio };
})();
