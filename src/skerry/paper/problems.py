"""The theory's constants on the problems of a study: measured, where the paper's figures assume."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from skerry.experiment import Experiment
from skerry.paper.study import factors_of

if TYPE_CHECKING:
    import pandas as pd

PROBLEM = ("intra", "inter", "topology", "dynamic")
"""What a study's constants depend on: the split of the data and the graph."""
CONSTANTS = ("smoothness", "gap", "zeta_intra2", "zeta_inter2", "sigma2", "p")
ROUNDS = (0, 10, 50)
DRAWS = 10


def measured_problems(
    experiments: Iterable[Experiment],
    *,
    device: str,
    known: "pd.DataFrame | None" = None,
    tell: Callable[[str], None] = lambda line: None,
) -> "pd.DataFrame":
    """A row per problem: its factors, the `key` of the run along which it was measured, and
    CONSTANTS, the largest of those after ROUNDS. Rows of `known` with the same key are taken."""
    import pandas as pd

    had = {} if known is None else {row["key"]: row for row in known.to_dict("records")}
    along = _runs_to_follow(experiments)
    if new := [run for run in along if run.key() not in had]:
        tell(f"measuring the theory's constants on {len(new)} problem{'s' * (len(new) > 1)}")
    return pd.DataFrame([had.get(run.key()) or _measured(run, device) for run in along])


def _runs_to_follow(experiments: Iterable[Experiment]) -> list[Experiment]:
    """One of each problem: the first seed at the largest stepsize, which gets farthest."""
    found: dict[tuple[Any, ...], Experiment] = {}
    order = sorted(experiments, key=lambda e: (e.seed, -e.training.stepsize))
    for experiment in order:
        factors = factors_of(experiment)
        found.setdefault(tuple(factors[name] for name in PROBLEM), experiment)
    return list(found.values())


def _measured(experiment: Experiment, device: str) -> dict[str, Any]:
    from skerry.theory.constants import measure_constants

    found = measure_constants(experiment, rounds=ROUNDS, draws=DRAWS, device=device)
    factors = factors_of(experiment)
    values = (
        found.smoothness.value,
        found.f0.value,
        found.zeta_intra2.value,
        found.zeta_inter2.value,
        found.sigma2.value,
        found.mixing.minimum,
    )
    return {
        **{name: factors[name] for name in PROBLEM},
        "key": experiment.key(),
        **dict(zip(CONSTANTS, values, strict=True)),
    }
