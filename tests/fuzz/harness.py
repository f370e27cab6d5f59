"""Trying a law on many cases: a few among all tests, thousands with `make test-slow`."""

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from skerry.errors import SkerryError

SAME_CASES = "SKERRY_SAME_CASES" in os.environ
"""Every change is judged by the same cases (.ci/run); by hand, thousands are new each time."""
SECONDS = 5
"""Of this process: whatever is wrong is told by then, also on a busy machine."""


def many(quick: int, slow: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cases", [quick, pytest.param(slow, marks=pytest.mark.slow)])


def check(
    cases: int,
    strategy: st.SearchStrategy[Any],
    law: Callable[[Any], str],
    counts: Callable[[str], None],
) -> None:
    """Try a law, which says how a case ended; tells how many ended how."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=cases,
        deadline=None,
        derandomize=cases < 500 or SAME_CASES,  # the few among all tests are always the same
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(strategy)
    def holds(case: Any) -> None:
        started = time.process_time()
        ended = law(case)
        assert time.process_time() - started < SECONDS
        seen[ended] += 1

    holds()
    ends = ", ".join(f"{count:,} {end}" for end, count in seen.most_common())
    counts(f"{law.__name__.replace('_', ' ')}: {sum(seen.values()):,} cases: {ends}")


def faults_of(call: Callable[[], object]) -> list[str]:
    """The lines that a user would read; none where all is well. Any other error is our fault."""
    lines: list[str] = []
    try:
        call()
    except SkerryError as error:
        lines = error.faults or [""]
    assert all(line.strip() for line in lines)
    return lines
