/* What one server round does, under any rule of selection: skerry.theory's operators, counts and
   participation, in their names; a test compares the two. */
"use strict";

const SkerryServerRound = (() => {
  const { total } = SkerryArithmetic;

  /* Devices in each component: as given, or as equal as possible. */
  function sizesOf(x) {
    if (Array.isArray(x.components)) return x.components;
    const small = Math.floor(x.devices / x.components), larger = x.devices % x.components;
    return Array.from({ length: x.components }, (_, c) => small + (c < larger ? 1 : 0));
  }

  // Uniform sampling

  const delta = (n, K) => (n - K) / Math.max(n - 1, 1);
  const kappa = (n, K) => delta(n, K) / K;
  const q = (n, K) => (n === 1 ? 1 : (n - 1) / (K - 1)); // infinite at K = 1

  /* [[intra to intra, inter to intra], [intra to inter, inter to inter]], row by row. */
  function exchangeMatrix(sizes, K, beta) {
    const n = total(sizes), C = sizes.length;
    const [a, b, c] = samplingMoments(n, K);
    const inverse = sizes.map((size) => 1 / size);
    const toIntra = inverse.map((s) => b * (1 - s) + c * (n - C));
    const toInter = inverse.map((s) => b * (s - 1 / n) + c * (C - 1));
    const inside = sizes.some((size) => size > 1), between = C > 1;
    const atMost = (weights) => Math.max(...weights.filter((_, i) => inverse[i] < 1));
    const M = [0, 0, 0, 0];
    if (inside) M[0] = a + atMost(toIntra);
    if (between) M[3] = a + largestBetween(toInter, sizes);
    if (inside && between) {
      M[1] = largestBetween(toIntra, sizes);
      M[2] = atMost(toInter);
    }
    return M.map((entry) => (1 - beta) ** 2 * entry);
  }

  /* Largest eigenvalue of Diag(weights) among vectors at right angles to z, z_i^2 = size_i/n: the
     largest weight where two components have it, else the root of sum z_i^2/(w_i - x) between the
     two largest. */
  function largestBetween(weights, sizes) {
    const n = total(sizes);
    let [high, low] = [...weights].sort((one, other) => other - one);
    const sum = (x) => total(weights.map((w, i) => sizes[i] / n / (w - x)));
    for (let i = 0; i < 100 && high > low; i++) {
      const middle = (low + high) / 2;
      if (middle <= low || middle >= high) break;
      if (sum(middle) < 0) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  /* (a, b, c) of E[W A W] = a A + b Diag(A) + c tr(A) I, in exact fractions over one denominator:
     the differences cancel, to nothing at K = 1. */
  function samplingMoments(n, K) {
    if (n === K) return [0, 0, 0];
    const falling = (x, k) => {
      let product = 1n;
      for (let i = 0; i < k; i++) product *= BigInt(x - i);
      return product;
    };
    const last = Math.min(n, 4), square = BigInt(K) ** 2n, k = BigInt(K);
    const whole = falling(n, last) * square;
    // K^2 times the chance that so many given devices are sampled, over `whole`.
    const chance = (m) => (m > n ? 0n : falling(K, m) * (falling(n, last) / falling(n, m)));
    const [one, two, three, four] = [1, 2, 3, 4].map(chance);
    const all = falling(n, last);
    const offDiagonal =
      2n * (two - 2n * three + four) +
      2n * k * (one - 2n * two + three) +
      square * (all - 2n * one + two);
    const rowAndColumn = two - 3n * three + 2n * four - k * (two - three);
    const diagonal = one - 3n * two + 2n * three + square * (all - one);
    const trace = two - 2n * three + four;
    return [offDiagonal, diagonal - offDiagonal - 2n * rowAndColumn, trace].map(
      (part) => Number(part) / Number(whole)
    );
  }

  // Other rules: given how many devices of each island are sampled everything is a formula

  const MOST_ISLANDS = 16; // of several sizes: beyond, their counts are too many for a page

  /* Why a rule has no answer here; empty if it has one. */
  function refusal(selection, sizes, K) {
    const C = sizes.length, unequal = new Set(sizes).size > 1;
    if (selection === "one_each" && K % C)
      return `one_each samples equally many devices of every island: ${K} is no multiple of ${C}.`;
    if (selection !== "uniform" && unequal && C > MOST_ISLANDS)
      return `${C} islands of several sizes are too many for this page.`;
    return "";
  }

  const known = new Map();

  /* S2A's bias is at most kappas (A, B), and S2S makes of (A, B) at most M (A, B). */
  function exchangeUnder(selection, sizes, K) {
    const key = `${selection} ${K} ${sizes}`;
    if (!known.has(key)) {
      if (known.size > 500) known.clear();
      known.set(key, computed(selection, sizes, K));
    }
    return known.get(key);
  }

  function computed(selection, sizes, K) {
    const n = total(sizes), C = sizes.length, each = Math.floor(K / C);
    if (selection === "uniform")
      return { kappas: [kappa(n, K), kappa(n, K)], M: exchangeMatrix(sizes, K, 0) };
    if (selection === "one_each")
      return exchange(sizes, [{ chance: 1, counts: sizes.map((size) => Math.min(each, size)) }], true, false);
    if (new Set(sizes).size > 1) return exchange(sizes, peeled(sizes, K), false, false);
    // One vector of counts stands for all of its permutations.
    const counts = sizes.map((_, c) => each + (c < K % C ? 1 : 0));
    return exchange(sizes, [{ chance: 1, counts }], false, true);
  }

  /* per_component's law of counts: islands take places one after the other, the smallest first. Of k
     places that are left, island c takes k n_c / n_left, rounded up or down by chance. */
  function peeled(sizes, K) {
    const order = [...sizes.keys()].sort((one, other) => sizes[one] - sizes[other] || one - other);
    let law = [{ chance: 1, counts: sizes.map(() => 0), left: K }], places = total(sizes);
    for (const c of order) {
      law = law.flatMap(({ chance, counts, left }) => {
        const low = Math.floor((left * sizes[c]) / places), rest = ((left * sizes[c]) % places) / places;
        const taking = (count, part) => ({
          chance: chance * part, left: left - count,
          counts: counts.map((before, at) => (at === c ? count : before)),
        });
        return rest > 0 ? [taking(low, 1 - rest), taking(low + 1, rest)] : [taking(low, 1)];
      });
      places -= sizes[c];
    }
    return law;
  }

  /* `weighed`: S2A weighs islands by their size. `alike`: one vector stands for its permutations. */
  function exchange(sizes, law, weighed, alike) {
    const n = total(sizes), C = sizes.length, islands = [...sizes.keys()];
    const square = () => islands.map(() => new Float64Array(C));
    const bias = new Float64Array(C), kept = new Float64Array(C), leak = new Float64Array(C);
    const moved = square(), keptBetween = square(), fromBetween = square();
    for (const { chance, counts } of law) {
      const K = total(counts), h = islands.map((c) => counts[c] / Math.sqrt(sizes[c]));
      const squares = total(h.map((one) => one ** 2)) / K ** 2;
      for (const c of islands) {
        const size = sizes[c], count = counts[c], away = 1 - count / size;
        const theta = (count * (size - count)) / (size * Math.max(size - 1, 1));
        const leaked = theta * ((1 - (2 * count) / K) / size + squares);
        bias[c] += chance * theta * (weighed ? size ** 2 / count ** 2 / n : n / K ** 2);
        leak[c] += chance * leaked;
        kept[c] += chance * (away + theta / K - leaked);
        for (const b of islands) {
          const product = (h[c] * h[b]) / K;
          const stays = product * (away + 1 - counts[b] / sizes[b] + K * squares) + (b === c ? away ** 2 : 0);
          keptBetween[c][b] += chance * stays;
          fromBetween[c][b] += chance * (product + (b === c ? away : 0) - stays);
          if (!weighed) moved[c][b] += (chance * n * product) / K;
        }
      }
    }
    const inside = islands.filter((c) => sizes[c] > 1);
    const within = (values) => (alike ? total(inside.map((c) => values[c])) / Math.max(inside.length, 1) : Math.max(0, ...inside.map((c) => values[c])));
    const between = (matrix) => amongDifferences(matrix, sizes, alike);
    return {
      kappas: [within(bias), between(moved)],
      M: [within(kept), between(fromBetween), within(leak), between(keptBetween)],
    };
  }

  /* The largest eigenvalue of a matrix of energies among differences of islands' means, which are at
     right angles to z_c = sqrt(size_c / n); with `alike` they are all the same. */
  function amongDifferences(matrix, sizes, alike) {
    const C = sizes.length, n = total(sizes), z = sizes.map((size) => Math.sqrt(size / n));
    if (C === 1) return 0;
    const rows = matrix.map((row) => total(z.map((one, b) => one * row[b])));
    const whole = total(z.map((one, c) => one * rows[c]));
    const projected = matrix.map((row, c) => row.map((entry, b) => entry - z[c] * rows[b] - rows[c] * z[b] + whole * z[c] * z[b]));
    const found = alike ? [total(projected.map((row, c) => row[c])) / (C - 1)] : eigenvalues(projected);
    return Math.max(0, ...found);
  }

  /* Of a symmetric matrix, by Jacobi's rotations. */
  function eigenvalues(matrix) {
    const A = matrix.map((row) => Float64Array.from(row)), C = A.length;
    const size = Math.max(...A.map((row, c) => Math.abs(row[c])));
    for (let sweep = 0; sweep < 60; sweep++) {
      let off = 0;
      for (let i = 0; i < C; i++)
        for (let j = i + 1; j < C; j++) {
          off = Math.max(off, Math.abs(A[i][j]));
          rotate(A, i, j);
        }
      if (off <= 1e-15 * size) break;
    }
    return A.map((row, c) => row[c]);
  }

  function rotate(A, i, j) {
    if (A[i][j] === 0) return;
    const angle = (A[j][j] - A[i][i]) / (2 * A[i][j]);
    const t = (angle < 0 ? -1 : 1) / (Math.abs(angle) + Math.hypot(angle, 1));
    const cos = 1 / Math.hypot(t, 1), sin = t * cos;
    for (const row of A) {
      const left = row[i], right = row[j];
      row[i] = cos * left - sin * right;
      row[j] = sin * left + cos * right;
    }
    const above = A[i].slice(), below = A[j];
    for (let c = 0; c < A.length; c++) {
      A[i][c] = cos * above[c] - sin * below[c];
      A[j][c] = sin * above[c] + cos * below[c];
    }
  }

  return { delta, kappa, q, exchangeMatrix, exchangeUnder, refusal, sizesOf };
})();
