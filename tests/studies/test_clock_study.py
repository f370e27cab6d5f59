"""The study of who is first: its page from the kept runs, and its main numbers by a second path."""

import importlib.util
import json
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from skerry.clock.settings import Clock
from skerry.seeds import stream

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies" / "clock"
N, K, ROUNDS, MODEL, TARGET = 100, 20, 100, 31_400.0, 88.0
CLOCKS = ("all links alike", "slow uplink", "cheap broadcast", "one in ten slow")


def script(name):
    spec = importlib.util.spec_from_file_location(f"clock_{name}", STUDY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


page = script("page")


@pytest.fixture(scope="module")
def results():
    return page.Results()


def test_the_page_is_what_the_script_makes(results):
    """After a change: python studies/clock/page.py"""
    assert (page.FOLDER / "README.md").read_text(encoding="utf-8") == page.page(results)


def test_one_clock_differs_from_the_first_in_one_thing():
    """So that a change of the winner has one reason."""
    first, *others = (page.clock_of(name).model_dump() for name in CLOCKS)
    changed = []
    for other in others:
        changed.append(
            {
                (section, field)
                for section, fields in first.items()
                for field in (fields if isinstance(fields, dict) else ())
                if fields[field] != other[section][field]
            }
        )
    assert changed == [
        {("uplink", "bandwidth"), ("uplink", "joules_per_byte")},
        {("downlink", "broadcast")},
        {("compute", "slow")},
    ]


# A second path: plain loops over the kept file


def neighbours(topology, i):
    start = i // 50 * 50
    if topology == "complete":
        return [j for j in range(start, start + 50) if j != i]
    return [start + (i - start + step) % 50 for step in (-1, 1)]


def sample(seed, t, server):
    order = stream(seed, "sampled", t).permutation(N).tolist()
    if server != "S2A, as many of each island":
        return order[:K]
    return [i for c in (0, 1) for i in [j for j in order if j // 50 == c][: K // 2]]


def plain_times(clock, topology, period, server, seed):
    """Seconds of the last device and joules of all, after each round; no code of the clock."""
    step = [clock.compute.seconds_per_step * clock.compute.slow.get(str(i), 1.0) for i in range(N)]
    T, computing, talking, sent = [0.0] * N, [0.0] * N, [0.0] * N, 0.0
    near = [neighbours(topology, i) for i in range(N)]
    links = sum(map(len, near))
    lasts = clock.d2d.latency + MODEL / clock.d2d.bandwidth
    ends, joules = [0.0], [0.0]
    for t in range(ROUNDS):
        T = [T[i] + step[i] + lasts for i in range(N)]
        computing = [computing[i] + step[i] for i in range(N)]
        talking = [talking[i] + lasts for i in range(N)]
        if topology == "complete":  # everybody hears everybody
            T = [max(T[i // 50 * 50 : i // 50 * 50 + 50]) for i in range(N)]
        else:
            T = [max(T[i], *(T[j] for j in near[i])) for i in range(N)]
        sent += 2 * links * MODEL * clock.d2d.joules_per_byte
        if t % period == 0:
            S = sample(seed, t, server)
            up = clock.uplink.latency + MODEL / clock.uplink.bandwidth
            at = max(
                max(T[i] for i in S) + up,
                min(T[i] for i in S) + K * MODEL / clock.server.bandwidth_in,
            )
            for i in S:
                T[i] += up
                talking[i] += up
            reached = S if server == "S2S" else range(N)
            down = clock.downlink.latency + MODEL / clock.downlink.bandwidth
            port = len(reached) * MODEL / clock.server.bandwidth_out
            if server != "S2S" and clock.downlink.broadcast:
                down, port = clock.downlink.latency + MODEL / clock.downlink.broadcast, 0.0
            for i in reached:
                got = max(T[i], at + down, at + port)
                talking[i] += min(down, got - T[i])
                T[i] = got
            sent += K * MODEL * clock.uplink.joules_per_byte
            sent += len(reached) * MODEL * clock.downlink.joules_per_byte
        idle = sum(T[i] - computing[i] for i in range(N))
        ends.append(max(T))
        power = clock.compute.watts * sum(computing) + clock.compute.idle_watts * idle
        joules.append(power + sent)
    return ends, joules


@pytest.fixture(scope="module")
def plain():
    """By cost, cell, server and stepsize: what each seed needs until the target; None: never."""
    rows = json.loads((STUDY / "data" / "runs.json").read_text(encoding="utf-8"))["runs"]
    clocks = {name: Clock.load(STUDY / f"{name.replace(' ', '_')}.toml") for name in CLOCKS}
    times, found = {}, defaultdict(lambda: [None] * 5)
    for row in rows:
        cell = row["regime"], row["topology"], row["period"]
        first = next((t for t, a in enumerate(row["accuracy"]) if a >= TARGET), None)
        place = cell, row["server"], row["stepsize"]
        found["rounds", *place][row["seed"]] = first
        server = "S2A" if row["server"] == "blend 0.5" else row["server"]  # the same messages
        for name, clock in clocks.items():
            same = name, row["topology"], row["period"], server, row["seed"]
            if same not in times:
                times[same] = plain_times(clock, *same[1:])
            for unit, curve in zip(("seconds", "joules"), times[same], strict=True):
                value = None if first is None else curve[first]
                found[f"{unit}, {name}", *place][row["seed"]] = value
    return found


def tuned(plain, cost, cell, server):
    """For each seed, its value at the stepsize with the fewest rounds on the others."""
    found = []
    for seed in range(5):
        worth = {}
        for eta in (0.0316, 0.1, 0.316):
            rounds = plain["rounds", cell, server, eta]
            others = [rounds[s] for s in range(5) if s != seed and rounds[s] is not None]
            worth[eta] = len(others), -sum(others) / max(len(others), 1)
            if all(plain["rounds", cell, server, one][s] is None
                   for one in (0.0316, 0.1, 0.316) for s in range(5) if s != seed):  # fmt: skip
                worth[eta] = rounds[seed] is not None, -(rounds[seed] or 0)
        best = max(worth, key=worth.get)  # the first of equals
        found.append(plain[cost, cell, server, best][seed])
    return found


def winner(by_server):
    """Most seeds, then the least mean over the seeds that the best ones share."""
    counts = {one: sum(v is not None for v in values) for one, values in by_server.items()}
    top = [one for one in by_server if counts[one] == max(counts.values())]
    shared = [s for s in range(5) if all(by_server[one][s] is not None for one in top)]
    return min(top, key=lambda one: round(np.mean([by_server[one][s] for s in shared]), 6))


SERVERS = ("S2S", "S2A", "blend 0.5", "S2A, as many of each island")
CELLS = [*product(("alike", "devices differ", "islands differ", "both differ"),
                  ("ring", "complete"), (5, 20))]  # fmt: skip


def test_costs_by_a_second_path(results, plain):
    """Every tuned cost of every cell, server and clock."""
    for cost, cell, server in product(page.COSTS, CELLS, SERVERS):
        ours = results.runs.tuned(cost, cell, server)
        theirs = np.array(tuned(plain, cost, cell, server), dtype=float)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, equal_nan=True)


def test_winners_by_a_second_path(results, plain):
    """Who is first, and how often the winner in rounds is not the winner in seconds or joules."""
    firsts = {
        (cost, cell): winner({one: tuned(plain, cost, cell, one) for one in SERVERS})
        for cost, cell in product(page.COSTS, CELLS)
    }
    for (cost, cell), server in firsts.items():
        assert results.firsts[cost][cell].server == server
    moved = {
        unit: sum(
            firsts[f"{unit}, {name}", cell] != firsts["rounds", cell]
            for name, cell in product(CLOCKS, CELLS)
        )
        for unit in ("seconds", "joules")
    }
    text = page.page(results)
    assert f"**In {moved['seconds']} of 64 cases the winner in rounds is not" in text
    assert f"in {moved['joules']} not the winner in joules" in text


def holm(p_values):
    """The p-values of one family, corrected one after the other."""
    order, worst, found = np.argsort(p_values), 0.0, [0.0] * len(p_values)
    for rank, place in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        found[place] = worst
    return found


def test_clear_differences_by_a_second_path(results, plain):
    """S2S against S2A in every cell that can be tested, by scipy's paired t test."""
    clear = {}
    for cost in ("rounds", *(f"seconds, {name}" for name in CLOCKS)):
        pairs = {}
        for cell in CELLS:
            both = zip(*(tuned(plain, cost, cell, one) for one in ("S2S", "S2A")), strict=True)
            together = [(a, b) for a, b in both if a is not None and b is not None]
            if len(together) >= 3:
                pairs[cell] = np.array(together, dtype=float).T
        p = holm([stats.ttest_rel(ours, theirs).pvalue for ours, theirs in pairs.values()])
        for (cell, (ours, theirs)), value in zip(pairs.items(), p, strict=True):
            sooner = "S2S" if ours.mean() < theirs.mean() else "S2A"
            clear[cost, cell] = sooner if value <= 0.05 else ""
    open_ = [cell for cost, cell in clear if cost == "rounds" and not clear["rounds", cell]]
    decided = [
        clear[f"seconds, {name}", cell]
        for name, cell in product(CLOCKS, open_)
        if clear[f"seconds, {name}", cell]
    ]
    ties, found = page.tied_and_decided(results)
    assert ties == open_
    assert {one: len(cells) for one, cells in found.items()} == {
        one: decided.count(one) for one in ("S2S", "S2A")
    }
    assert f"clearly apart in {len(decided)} of these {4 * len(open_)} cases" in page.page(results)


def test_the_study_runs_and_keeps_what_the_page_needs(tmp_path, monkeypatch):
    """A small study from the first run to a page, by the commands that its docstring names."""
    run = script("run")
    data = tmp_path / "data.json"
    arguments = ["--out", str(tmp_path / "runs"), "--rounds", "2", "--seeds", "2", "--few"]
    monkeypatch.setattr(
        sys, "argv", ["run.py", *arguments, "--write", str(data), "--device", "cpu"]
    )
    run.main()
    runs = page.ClockRuns(data)
    assert len(runs.rows) == 4 * 2 * 2 * 2 * 4 * 3
    assert {row["status"] for row in runs.rows} == {"finished"}
    found = page.Results(runs)
    assert runs.tuned("rounds", ("alike", "ring", 5), "S2S").shape == (2,)
    assert "# Who is first at 88 %" in page.page(found)
