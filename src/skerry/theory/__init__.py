"""The theory of S2S, S2A and the blends between them: operators, bounds and communication costs."""

from skerry.theory.bounds import Bound, bound, coefficients, guaranteed_average
from skerry.theory.certified import Certificate, best_blend, certified_average, certified_rounds
from skerry.theory.communication import Prices, communication_cost, server_round_cost, server_rounds
from skerry.theory.lemmas import (
    convergence_bound,
    convex_descent,
    inter_after_mixing,
    intra_after_mixing,
    nonconvex_descent,
    period_sum,
    recursion_bound,
    server_share,
    simulate_recursion,
)
from skerry.theory.operators import (
    W_blend,
    W_s2a,
    W_s2s,
    best_beta,
    bias,
    delta,
    disagreement,
    exchange_matrix,
    expected_gram,
    kappa,
    q,
    split_disagreement,
)
from skerry.theory.parameters import Parameters
from skerry.theory.participation import exchange_under
from skerry.theory.regimes import regime_table

__all__ = [
    "Bound", "Certificate", "Parameters", "Prices", "W_blend", "W_s2a", "W_s2s", "best_beta",
    "best_blend", "bias", "bound", "certified_average", "certified_rounds", "coefficients",
    "communication_cost", "convergence_bound", "convex_descent", "delta", "disagreement",
    "exchange_matrix", "exchange_under", "expected_gram", "guaranteed_average",
    "inter_after_mixing", "intra_after_mixing", "kappa", "nonconvex_descent", "period_sum", "q",
    "recursion_bound", "regime_table", "server_round_cost", "server_rounds", "server_share",
    "simulate_recursion", "split_disagreement",
]  # fmt: skip
