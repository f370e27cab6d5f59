"""The full disagreement recursion as matrices, from which certified bounds are computed.

With v = (A, B) = E (D_intra, D_inter)/n and any alpha, rho > 0, one round is
    v <- P v + g                                                             local step and D2D
    bias = beta^2 (kappa_intra A + kappa_inter B),  then  v <- (1-beta)^2 M v   if t mod H = 0
P has the mixing and the gradient drift (2 eta^2 L^2 terms), g the heterogeneity, and M the exchange
between the two kinds of disagreement in a server round. M and both kappas depend on the selection
rule; with uniform sampling the kappas are equal.
"""

from copy import copy
from dataclasses import fields

import numpy as np

from skerry.errors import SkerryError
from skerry.theory import operators
from skerry.theory.operators import Array, Numbers
from skerry.theory.parameters import Parameters
from skerry.theory.participation import exchange_under

A, B, ONE, COST = range(4)


class FullRecursion:
    """The recursion of one setting, and the bound on the average by Lemmas 3 and 4.

    A round is a matrix on the state (A, B, 1, cost), where cost sums the contributions of
    disagreement and bias. eta, alpha and rho may be arrays that broadcast; matrices are stacked.
    """

    def __init__(self, parameters: Parameters, beta: float, convex: bool):
        _require_one_setting(parameters)
        operators.check_beta(beta)
        sizes, n, K = parameters.sizes, int(parameters.devices), int(parameters.sampled)
        exchange = exchange_under(parameters.selection, parameters.weights, sizes, K)
        kappas = np.array([exchange.kappa_intra, exchange.kappa_inter])
        self.beta = beta
        self.convex = convex
        self.H = int(parameters.period)
        self.p = float(parameters.p)
        self.L = float(parameters.smoothness)
        self.epsilon = float(parameters.epsilon)
        self.r0 = float(parameters.initial_error) * (1 if convex else 4)
        self.noise = float(parameters.sigma2) / n * (1 if convex else 2 * self.L)
        self.zeta2 = np.array([parameters.zeta_intra, parameters.zeta_inter], float) ** 2
        # Islands of one device have no intra part, a single island has no inter part.
        self.present = np.array([max(sizes) > 1, len(sizes) > 1], float)
        self.M = (1 - beta) ** 2 * exchange.M
        self.kappa = beta**2 * float(kappas.max())
        # kappa of each kind relative to the larger one; (1, 1) for uniform sampling.
        self.kappa_shares = kappas / kappas.max() if kappas.max() > 0 else np.ones(2)
        self.largest_stepsize = 1 / (4 * self.L)

    def average(self, eta: Numbers, alpha: Numbers, rho: Numbers, *, rounds: int) -> Array:
        """Bound on the average over t = 0..rounds-1, for eta up to 1/(4L). The recursion has period
        H, so that matrix powers replace a loop over rounds."""
        server, plain = self.steps(eta, alpha, rho)
        periods, rest = divmod(rounds, self.H)
        with np.errstate(over="ignore", invalid="ignore"):
            state = np.linalg.matrix_power(self._period(server, plain), periods)
            if rest:
                state = np.linalg.matrix_power(plain, rest - 1) @ server @ state
            cost = state[..., COST, ONE]  # from v = 0, cost = 0
            average = self.r0 / (eta * rounds) + self.noise * eta + cost / rounds
        return np.where(np.isnan(average), np.inf, average)  # inf * 0 where the recursion diverges

    def terms(self, eta: float, alpha: float, rho: float, *, rounds: int) -> dict[str, float]:
        """Contribution of each source to the average; it is linear in zeta^2."""

        def cost(mask: tuple[float, float], kappa: float) -> float:
            part = copy(self)
            part.r0, part.noise, part.zeta2, part.kappa = 0.0, 0.0, self.zeta2 * mask, kappa
            return float(part.average(eta, alpha, rho, rounds=rounds))

        terms = {"initial": self.r0 / (eta * rounds), "noise": self.noise * eta}
        for name, mask in (("intra", (1.0, 0.0)), ("inter", (0.0, 1.0))):
            terms[name] = cost(mask, 0.0)
            if self.beta > 0:
                terms[f"sampling_{name}"] = cost(mask, self.kappa) - terms[name]
        return terms

    def sufficient_rounds(self, eta: Array, alpha: Array, rho: Array) -> Array:
        """Sufficient rounds for epsilon in closed form; infinite if no number is. v grows to a
        periodic steady state with cost Q per period, so that N rounds cost at most (N/H + 1) Q."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            period = self._period(*self.steps(eta, alpha, rho))
            R, s = period[..., :2, :2], period[..., :2, ONE]
            J = np.eye(2) - R
            determinant = J[..., 0, 0] * J[..., 1, 1] - J[..., 0, 1] * J[..., 1, 0]
            steady_A = (J[..., 1, 1] * s[..., 0] - J[..., 0, 1] * s[..., 1]) / determinant
            steady_B = (J[..., 0, 0] * s[..., 1] - J[..., 1, 0] * s[..., 0]) / determinant
            by_A, by_B, alone = (period[..., COST, part] for part in (A, B, ONE))
            Q = by_A * steady_A + by_B * steady_B + alone
            margin = self.epsilon - self.noise * eta - Q / self.H
            bounded = (J[..., 0, 0] > 0) & (J[..., 1, 1] > 0) & (determinant > 0)
            return np.where(bounded & (margin > 0), (self.r0 / eta + Q) / margin, np.inf)

    def steps(self, eta: Numbers, alpha: Numbers, rho: Numbers) -> tuple[Array, Array]:
        """Matrices of a round with the server and of a round without it."""
        eta, alpha, rho = np.broadcast_arrays(eta, alpha, rho)
        P, g = self._d2d(eta, alpha, rho)
        per_disagreement = 1.5 * self.L if self.convex else 4 * self.L**2
        per_bias = self.kappa * (1 if self.convex else 2 * self.L) / eta
        plain = np.zeros((*eta.shape, 4, 4))
        plain[..., :2, :2] = P
        plain[..., :2, ONE] = g
        plain[..., ONE, ONE] = 1
        plain[..., COST, COST] = 1
        plain[..., COST, :2] = per_disagreement
        server = plain.copy()
        server[..., :2, :2] = self.M @ P
        server[..., :2, ONE] = g @ self.M.T
        server[..., COST, :2] += per_bias[..., None] * (self.kappa_shares[:, None] * P).sum(axis=-2)
        server[..., COST, ONE] += per_bias * (self.kappa_shares * g).sum(axis=-1)
        return server, plain

    def _d2d(self, eta: Array, alpha: Array, rho: Array) -> tuple[Array, Array]:
        """P and g of v <- P v + g, by Young's inequality with alpha (intra) and rho (inter)."""
        intra, inter = 2 * (1 + 1 / alpha) * eta**2, 2 * (1 + 1 / rho) * eta**2
        drift_intra, drift_inter = intra * self.L**2, inter * self.L**2
        P = np.empty((*eta.shape, 2, 2))
        P[..., A, A] = (1 - self.p) * (1 + alpha + drift_intra)
        P[..., A, B] = (1 - self.p) * drift_intra
        P[..., B, A] = drift_inter
        P[..., B, B] = 1 + rho + drift_inter
        g = np.stack([intra, inter], axis=-1) * self.zeta2
        return P * self.present[:, None], g * self.present

    def _period(self, server: Array, plain: Array) -> Array:
        return np.asarray(np.linalg.matrix_power(plain, self.H - 1) @ server)


def _require_one_setting(parameters: Parameters) -> None:
    for field in fields(parameters):
        value = getattr(parameters, field.name)
        if np.ndim(value) and not (field.name == "components" and isinstance(value, tuple)):
            raise SkerryError(
                f"certified bounds take one setting at a time (got {np.size(value)} values of "
                f"{field.name}). Call once for each."
            )
