"""A handful of the kept cells, run anew here: the reproduction can be reproduced.

They need the MNIST data (`skerry data fetch mnist`), which is not fetched for a test's sake.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from skerry import run
from skerry.data.sources.fetch import is_cached
from skerry_paper.plan import BOTH, SPLITS
from skerry_paper.plans import PLANS
from skerry_paper.study import StudyData, factors_of, final_column

KEPT = Path(__file__).parents[2] / "studies" / "reproduction" / "data" / "mnist.json"
SCORINGS = ("average_accuracy", "own_accuracy")
FRESH = 17
"""A seed that the kept study does not have."""
LEVEL = 0.999
"""Of each interval: sixteen of them must all hold."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not is_cached("mnist"), reason="skerry data fetch mnist"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def kept() -> StudyData:
    return StudyData.load(KEPT)


def rerun(seed: int, regime: str):
    """S2S and S2A of one cell, looked at in the last round only."""
    cell = {
        "data.intra, data.inter": [SPLITS[regime]],
        "network.topology": ["complete"],
        "server.sampled": [20],
        "server.period": [5],
        "server.primitive": BOTH,
        "training.stepsize": [0.1],
    }
    experiments = PLANS["mnist"].experiments("full", cell, [f"seed={seed}", "evaluate.after=99"])
    return run([one for one in experiments if one.seed == seed], device="cpu")


def cell_of(kept: StudyData, lane, **changes) -> StudyData:
    factors = factors_of(lane.experiment) | changes
    del factors["beta"]
    return kept.of(**{name: value for name, value in factors.items() if value is not None})


def test_the_same_seed_gives_the_same_numbers(kept):
    """Draws do not depend on the machine; only rounding differs between a CPU and a GPU."""
    for lane in rerun(0, "R3"):
        (row,) = cell_of(kept, lane).runs.to_dict("records")
        for measure in SCORINGS:
            assert lane.final[measure] == pytest.approx(row[final_column(measure)], abs=0.3), (
                measure
            )


@pytest.mark.parametrize("regime", SPLITS)
def test_another_seed_falls_where_the_kept_ones_say(kept, regime):
    """Within the interval in which the kept seeds expect one more of their kind."""
    for lane in rerun(FRESH, regime):
        others = cell_of(kept, lane, seed=None).runs
        for measure in SCORINGS:
            values = others[final_column(measure)].to_numpy(float)
            n = len(values)
            width = stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) * np.sqrt(1 + 1 / n)
            assert n >= 5
            assert abs(lane.final[measure] - values.mean()) < width, (measure, values)
