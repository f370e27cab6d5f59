"""Plug-ins with faults of every kind: each is refused in one line, or changes no number."""

import math
import warnings
from collections import Counter
from itertools import count, cycle

import pytest

import skerry
from plugin_faults import KINDS, faults_of, register
from skerry.errors import SkerryError

BASE = (
    "network.devices=6", "server.sampled=3", "server.period=2", "rounds=4", "training.batch=4",
    "data.dataset=plugin_faults:dataset", "evaluate.every=2",
)  # fmt: skip
NUMBERS = count()


def run(kind, name, more):
    """The last measures of a small run with a plug-in."""
    *before, last = kind.settings
    value = f'["{name}"]' if last == "evaluate.own" else name
    experiment = skerry.Experiment.parse({}, [*BASE, *before, *more, f"{last}={value}"])
    [lane] = skerry.run(experiment, progress=False)
    return lane.status, dict(lane.final)


def is_equal(a, b):
    if a[0] != b[0]:
        return False
    # A measure of one's own has the name of its function.
    left, right = ([v for k, v in sorted(one[1].items()) if "case" not in k] for one in (a, b))
    mine = [[v for k, v in one[1].items() if "case" in k] for one in (a, b)]
    pairs = zip((*left, *mine[0]), (*right, *mine[1]), strict=True)
    return all(math.isclose(x, y, rel_tol=1e-5, abs_tol=1e-7) or x != x for x, y in pairs)


def outcome(kind, hook, fault, more, control):
    """ "refused", "harmless", "diverged" or "silent"; what else is raised passes through."""
    name = register(next(NUMBERS), kind.plug_in(hook, fault))
    try:
        found = run(kind, name, more)
    except SkerryError as error:
        lines = str(error).splitlines()
        assert len(lines) == 1, lines
        assert lines[0].isprintable(), lines
        return "refused"
    if found[0] == "diverged":
        return "diverged"
    return "harmless" if is_equal(found, control) else "silent"


def campaign(kinds):
    """The number of cases by outcome, and the silent ones."""
    told, wrong = Counter(), []
    for kind_name in kinds:
        kind, controls = KINDS[kind_name], {}
        others = cycle(((), *kind.others))
        cases = [(hook, fault) for hook in kind.hooks for fault in faults_of(kind_name, hook)]
        for hook, fault in cases:
            more = next(others)
            if more not in controls:
                controls[more] = run(kind, register(next(NUMBERS), kind.control), more)
                assert controls[more][0] == "finished"
            case = (kind_name, hook, fault.name, more)
            try:
                found = outcome(kind, hook, fault, more, controls[more])
            except BaseException as error:
                found = f"{type(error).__name__}: {error!r:.200}"
            told[found] += 1
            if found not in ("refused", "harmless", "diverged") or (
                fault.refused and found != "refused"
            ):
                wrong.append((*case, found))
    return told, wrong


@pytest.mark.slow
def test_no_plug_in_is_wrong_in_silence(counts):
    """A fault is refused in one line, or the run is that of the correct plug-in."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told, wrong = campaign(KINDS)
    assert not wrong, wrong
    assert told.total() >= 1500
    counts(f"faulty plug-ins: {told.total():,}: {dict(told)}, 0 wrong in silence")
