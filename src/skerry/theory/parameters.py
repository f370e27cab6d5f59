"""Parameters of the convergence bounds, with their checks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from skerry.errors import SkerryError, unknown
from skerry.theory.counts import check_rule
from skerry.theory.operators import Array, Numbers, check_sampled
from skerry.theory.participation import WEIGHTS

WHOLE_NUMBERS = ("devices", "components", "sampled", "period")
_COUNTS = ("devices", "components", "period")
_POSITIVE = ("smoothness", "epsilon")
_NOT_NEGATIVE = ("zeta_intra", "zeta_inter", "sigma2", "initial_error")
_WORDS = ("selection", "weights")


@dataclass(frozen=True)
class Parameters:
    """The setting of a convergence bound; any field may be an array, and arrays broadcast."""

    devices: Numbers
    """Number of devices (n)."""
    components: Numbers | tuple[int, ...]
    """Number of islands (C), or a tuple of their sizes; only certified bounds use it."""
    sampled: Numbers
    """Number of devices sampled in a server round (K)."""
    period: Numbers
    """Rounds from one server round to the next (H)."""
    p: Numbers
    """Mixing parameter: D2D leaves at most 1-p of the disagreement inside islands."""
    zeta_intra: Numbers
    """Gradient heterogeneity inside islands."""
    zeta_inter: Numbers
    """Gradient heterogeneity between islands."""
    sigma2: Numbers
    """Variance of a device's stochastic gradient."""
    smoothness: Numbers
    """Lipschitz constant of the gradients (L)."""
    initial_error: Numbers
    """Error of the start: R0^2 = ||x0 - x*||^2 (convex) or f0 = f(x0) - f* (non-convex)."""
    epsilon: Numbers
    """Target for the average error over rounds."""
    selection: str = "uniform"
    """Selection rule of the server; only certified bounds support others than uniform."""
    weights: str = "equal"
    """Weights in the average that S2A delivers: of devices equally, or (stratified) of islands by
    their size, as one_each always does."""

    def __post_init__(self) -> None:
        check_rule(self.selection)
        if self.weights not in WEIGHTS:
            raise SkerryError(unknown("kind of weights", self.weights, WEIGHTS))
        numbers = [field.name for field in fields(self) if field.name not in _WORDS]
        connect = "An island whose graph is not connected has p = 0: connect it."
        self._require(numbers, np.isfinite, "must be finite", "Give a number.")
        self._require(
            WHOLE_NUMBERS, lambda x: x == np.round(x), "must be a whole number", "Round it."
        )
        self._require(_COUNTS, lambda x: x >= 1, "must be at least 1", "Raise it.")
        self._require(_POSITIVE, lambda x: x > 0, "must be above 0", "Raise it.")
        self._require(_NOT_NEGATIVE, lambda x: x >= 0, "must be at least 0", "Raise it.")
        self._require(["p"], lambda x: (x > 0) & (x <= 1), "must be above 0 and at most 1", connect)
        check_sampled(self.devices, self.sampled)
        self._check_islands()

    def _require(
        self, names: Iterable[str], holds: Callable[[Array], Any], rule: str, fix: str
    ) -> None:
        for name in names:
            try:
                numbers = np.asarray(getattr(self, name), float)
            except OverflowError:  # an integer of hundreds of digits
                raise SkerryError(f"{name} is larger than any number here. Lower it.") from None
            fine = np.asarray(holds(numbers))
            if not fine.all():
                raise SkerryError(f"{name} {rule} (got {numbers[~fine].flat[0]:g}). {fix}")

    def _check_islands(self) -> None:
        n, C = self.devices, self.components
        if isinstance(C, tuple) and np.any(np.asarray(n) != sum(C)):
            raise SkerryError(
                f"island sizes must add up to devices (got {sum(C)} for {n} devices). "
                "Change the sizes or devices."
            )
        if not isinstance(C, tuple) and np.any(np.asarray(C) > np.asarray(n)):
            raise SkerryError(
                f"components must be at most devices (got up to {np.max(C):g} for as few as "
                f"{np.min(n):g} devices). Lower components or give a tuple of sizes."
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Devices in each island: as given, or as equal as possible."""
        if isinstance(self.components, tuple):
            return self.components
        small, larger = divmod(int(self.devices), int(self.components))
        return tuple(small + (c < larger) for c in range(int(self.components)))

    @property
    def is_as_in_the_paper(self) -> bool:
        """Whether devices are sampled uniformly with equal weights, as the theorems assume."""
        return self.selection == "uniform" and self.weights == "equal"
