/* Rounds and messages of one primitive, by any of the bounds: skerry.theory.rounds_and_messages. */
"use strict";

const SkerryRoundsAndMessages = (() => {
  const { refusal, sizesOf } = SkerryServerRound;
  const { bound } = SkerryBounds;
  const { certifiedRounds, bestBlend } = SkerryCertified;

  const ONE_EACH = { uplink: 1, downlink: 1, broadcast: null };

  /* One broadcast is used in the place of several downlinks where it is cheaper. */
  function serverRoundCost(primitive, n, K, { uplink, downlink, broadcast } = ONE_EACH) {
    return uplink * K + Math.min(downlink * (primitive === "s2s" ? K : n), broadcast ?? Infinity);
  }

  /* beta: that of a blend, or "best". */
  function ask(x, primitive, mode, convex, beta = 0.5) {
    if (mode === "certified") {
      const refused = refusal(x.selection ?? "uniform", sizesOf(x), x.sampled);
      if (refused) return { primitive, rounds: Infinity, messages: Infinity, stepsize: NaN, beta: NaN, terms: {}, reason: refused, refused };
      const dial = { s2s: 0, s2a: 1 }[primitive] ?? beta;
      const found = dial === "best" ? bestBlend(x, convex) : certifiedRounds(x, dial, convex);
      const sends = found.beta === 0 ? "s2s" : primitive;
      return { ...found, primitive, messages: messagesOf(x, sends, found.rounds - 1, false) };
    }
    const found = bound(x, primitive, mode, convex);
    const smooth = found.horizon === null;
    const messages = messagesOf(x, primitive, smooth ? found.rounds : found.horizon, smooth);
    return { ...found, primitive, beta: null, messages };
  }

  function messagesOf(x, primitive, rounds, smooth) {
    const serverRounds = rounds / x.period;
    return serverRoundCost(primitive, x.devices, x.sampled, x.prices) * (smooth ? serverRounds : Math.ceil(serverRounds));
  }

  return { ask, serverRoundCost };
})();
