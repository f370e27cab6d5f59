"""The claims of the pages, computed again from the kept files by a second path: plain JSON, loops
and scipy, nothing of the scripts that write the pages. Each claim is checked with its control."""

import json
import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).parents[2]
DATA = ROOT / "studies"
AVERAGE, OWN = "average_accuracy", "own_accuracy"


def kept(study, part):
    return json.loads((DATA / study / "data" / f"{part}.json").read_text(encoding="utf-8"))


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def past():
    return page("docs/past-the-paper.md")


@pytest.fixture(scope="module")
def authors():
    return page("docs/tell-the-authors.md")


# Statistics, written once more


def elsewhere(scores, guide=None):
    """For each seed its score at the stepsize with the best mean over the other seeds. Stepsizes
    that diverged on fewer of them come first."""
    guide = scores if guide is None else guide
    seeds = range(len(scores[0]))
    found = []
    for seed in seeds:
        ranked = []
        for place, row in enumerate(guide):
            others = [row[s] for s in seeds if s != seed and row[s] is not None]
            mean = math.fsum(others) / len(others) if others else -math.inf
            ranked.append((len(others), mean, -place))
        chosen = -max(ranked)[2]
        value = scores[chosen][seed]
        found.append(math.nan if value is None else value)
    return np.array(found)


def interval(values):
    """`+1.23 ± 0.45`."""
    values = values[np.isfinite(values)]
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return f"{values.mean():+.2f} ± {half:.2f}"


def clear(rows):
    """For each row of differences: 1 or -1 where Holm's test at the level 0.05 is clear, else 0."""
    ps = [stats.ttest_1samp(row, 0).pvalue for row in rows]
    signs, alive = [0] * len(rows), True
    for rank, place in enumerate(np.argsort(ps)):
        alive = alive and ps[place] * (len(rows) - rank) <= 0.05
        signs[place] = int(np.sign(np.mean(rows[place]))) if alive else 0
    return signs


def told(rows):
    """Each row of differences as in a table: bold where it is clear."""
    return [
        f"**{interval(row)}**" if sign else interval(row)
        for row, sign in zip(rows, clear(rows), strict=True)
    ]


def cells(text, *start):
    """The cells of the one table row that starts with these cells."""
    begin = "| " + " | ".join(start) + " |"
    (line,) = [line for line in text.splitlines() if line.startswith(begin)]
    return [one.strip() for one in line.strip("|").split("|")][len(start) :]


def ends(values):
    low, high = f"{min(values):+.2f}", f"{max(values):+.2f}"
    return low if low == high else f"{low} to {high}"


# Whom to sample


def selection_row(part, regime, primitive, rule, K, H, fleet="2 islands", wrong=None):
    H = None if primitive == "none" else H
    fields = {"fleet": fleet, "regime": regime, "primitive": primitive, "selection": rule}
    fields |= {"sampled": K, "period": H, "wrong": wrong, "topology": "ring"}
    rows = kept("selection", part)["rows"]
    found = [r for r in rows if all(r.get(name) == value for name, value in fields.items())]
    assert len(found) == 1, fields
    return found[0]


def scores(part, *place, measure=AVERAGE, guide=None, **more):
    row = selection_row(part, *place, **more)
    return elsewhere(row[measure], row[guide or measure])


def test_two_and_twenty(past, authors):
    """S2A with one device of each island beside 20 random ones, 2 random ones and no server."""
    places = [*product(("alike", "islands differ", "devices differ", "both differ"), (5, 20))]
    servers = [
        ("none", None, None), ("s2a", "uniform", 2), ("s2a", "one_each", 2), ("s2a", "uniform", 20),
        ("s2a", "per_component", 20),
    ]  # fmt: skip
    found = {
        (regime, H): [scores("mnist", regime, *server, H) for server in servers]
        for regime, H in places
    }
    gaps = [found[place][2] - found[place][3] for place in places]
    bare = [found[place][2] - found[place][0] for place in places]
    for place, gap in zip(places, told(gaps), strict=True):
        levels = [f"{one.mean():.2f}" for one in found[place]]
        assert cells(past, place[0], str(place[1]), levels[0]) == [*levels[1:], gap]
    for wanted in (("islands differ",), ("alike",), ("devices differ", "both differ")):
        here = [i for i, (regime, _) in enumerate(places) if regime in wanted]
        many, none = (ends([rows[i].mean() for i in here]) for rows in (gaps, bare))
        signs = [clear(gaps)[i] for i in here]
        assert re.search(rf"than twenty at random \({re.escape(many)} points\)", past)
        assert f"({none})" in past
        assert f"of {len(here)} settings" in past
        assert (sum(sign < 0 for sign in signs) > 0) == (
            f"clearly worse in {sum(sign < 0 for sign in signs)} of {len(here)}" in past
        )
        if wanted != ("alike",):
            assert many in authors


def test_the_law_of_two_islands(past):
    """The bias of S2A by enumeration: the share of a disagreement inside or between two islands."""
    n, K = 8, 4
    island = np.repeat([1.0, -1.0], n // 2)
    inside = np.array([1.0, -1.0, 0, 0, 0, 0, 0, 0])
    counts = {}
    for name, models in (("between", island), ("inside", inside)):
        moved = {"uniform": [], "each": []}
        for sample in product((0, 1), repeat=n):
            chosen = np.array(sample, bool)
            if chosen.sum() == K:
                share = n * models[chosen].mean() ** 2 / np.sum(models**2)
                moved["uniform"].append(share)
                if chosen[: n // 2].sum() == K // 2:
                    moved["each"].append(share)
        counts[name] = {rule: np.mean(values) for rule, values in moved.items()}
    assert counts["between"]["uniform"] == pytest.approx((n - K) / (n - 1) / K)
    assert counts["between"]["each"] == 0
    # The same formulas at the sizes of the page.
    assert cells(past, "20", "uniform")[1] == f"{80 / 99 / 20:.4f}"
    assert cells(past, "20", "per_component") == [f"{(50 - 10) / 49 / 20:.4f}", "0.0000"]
    assert cells(past, "2", "one_each") == ["0.5000", "0.0000"]


def test_wrong_labels(past):
    """The gain of S2A by labels over uniform sampling, the control, with no server beside it."""
    places = [*product(("islands differ", "both differ"), (2, 20), (5, 20))]
    gains = []
    for regime, K, H in places:
        usual = scores("labels", regime, "s2a", "uniform", K, H)
        right = scores("labels", regime, "s2a", "one_each", K, H)
        wrong = [
            scores("labels", regime, "s2a", "believed_islands", K, H, wrong=share)
            for share in (0.1, 0.3, 0.5)
        ]
        gains.append([one - usual for one in (right, *wrong)])
    shown = iter(told([gain for row in gains for gain in row]))
    for regime, K, H in places:
        bare = scores("labels", regime, "none", None, None, H)
        usual = scores("labels", regime, "s2a", "uniform", K, H)
        levels = [f"{one.mean():.2f}" for one in (bare, usual)]
        assert cells(past, regime, str(K), str(H), levels[0])[1:] == [next(shown) for _ in range(4)]
        assert levels[1] in past
    for column in range(4):
        assert f"({ends([row[column].mean() for row in gains])} points)" in past


def cifar_stretches(primitive, rule, K):
    """Means of the average model over stretches of 100 rounds, by the last round and seed."""
    row = selection_row("long", "islands differ", primitive, rule, K, 20)
    found = {}
    for last in range(100, 1001, 100):
        here = [i for i, t in enumerate(row["round"]) if last - 100 < t <= last]
        found[last] = np.array([np.mean([curve[i] for i in here]) for curve in row[AVERAGE]])
    return found


SHOWN = (100, 300, 500, 700, 900, 1000)


def test_sampling_on_cifar10(past, authors):
    """S2S minus S2A over 1,000 rounds: at random, its control, and with every island sampled."""
    s2s, s2a, s2s_each, s2a_each = (
        cifar_stretches(primitive, rule, 20)
        for rule in ("uniform", "per_component")
        for primitive in ("s2s", "s2a")
    )
    bare = cifar_stretches("none", None, None)
    usual, each = [s2s[t] - s2a[t] for t in s2s], [s2s_each[t] - s2a_each[t] for t in s2s]
    changes = [late - early for late, early in zip(each, usual, strict=True)]
    shown = [dict(zip(s2s, told(rows), strict=True)) for rows in (usual, each, changes)]
    for last in SHOWN:
        levels = [f"{one[last].mean():.2f}" for one in (bare, s2s, s2a)]
        name = f"{last - 99:,} to {last:,}"
        assert cells(past, name) == [*levels, *(one[last] for one in shown)]
    assert f"changes by {interval(changes[0])} points" in past
    assert f"and by {interval(changes[-1])} points" in past
    for rows, name in ((usual, "5 seeds"), (each, "5 seeds, 10 of each island")):
        wanted = [dict(zip(s2s, told(rows), strict=True))[t] for t in SHOWN]
        assert cells(past, f"average model, {name}") == wanted
        peak = max(range(10), key=lambda at: usual[at].mean())
        assert interval(rows[peak]) in authors
        assert interval(rows[-1]) in authors


def test_winners_by_scoring(past):
    """S2S minus S2A by the average model and by own labels, at stepsizes tuned for either."""
    fleets = ("2 islands", "4 islands", "10 islands", "70 and 30", "40, 30, 20, 10")
    scorings = ((AVERAGE, AVERAGE), (OWN, OWN), (OWN, AVERAGE))
    totals = [0, 0, 0]
    for fleet in fleets:
        shown = []
        for column, (measure, guide) in enumerate(scorings):
            leads = []
            for K, H in product((10, 20), (5, 20)):
                s2s, s2a = (
                    scores("mnist", "islands differ", name, "uniform", K, H,
                           fleet=fleet, measure=measure, guide=guide)
                    for name in ("s2s", "s2a")
                )  # fmt: skip
                leads.append(float(np.mean(s2s - s2a)))
            ahead = sum(lead > 0 for lead in leads)
            totals[column] += ahead
            shown.append(f"{ahead} of 4 ({np.mean(leads):+.2f})")
        assert cells(past, fleet) == shown
    assert f"S2S is ahead of S2A in {totals[0]} of 20 settings" in past
    assert f"by devices on their own labels in {totals[1]} of 20" in past


# Memory


def method_values(part, regime, H, server, method):
    for cell in kept("methods", part)["cells"]:
        if (cell["regime"], cell["period"], cell["server"]) == (regime, H, server):
            for row in cell["rows"]:
                if row["method"] == method:
                    return np.array([math.nan if v is None else v for v in row["device_accuracy"]])
    return None


STEPS = {
    "participation": (("20 at random", "s2a"), ("all devices", "s2a")),
    "links": (("all devices", "s2a"), ("all devices", "hier_favg")),
    "memory": (("all devices", "hier_favg"), ("all devices", "mtgc")),
    "together": (("20 at random", "s2a"), ("all devices", "mtgc")),
}


def test_the_gain_of_mtgc_is_split(past, authors):
    """Participation, links and memory add up to MTGC beside S2A; MTGC stands beside HierFAVG."""
    means = {}
    places = [*product(("devices differ", "islands differ", "both differ"), (5, 20))]
    for name, (old, new) in STEPS.items():
        gains = [
            method_values("mnist", regime, H, *new) - method_values("mnist", regime, H, *old)
            for regime, H in places
        ]
        means[name] = float(np.mean([np.nanmean(one) for one in gains]))
    assert means["together"] == pytest.approx(math.fsum([*means.values()][:3]))
    sentence = (
        f"of MTGC's mean gain of {means['together']:+.2f} points over S2A where data differ, "
        f"participation gives {means['participation']:+.2f}, links {means['links']:+.2f} and "
        f"memory {means['memory']:+.2f}"
    )
    assert sentence in past
    assert sentence in authors


# Choosing


def utility(values):
    return math.fsum(values) / len(values)


def choose(row, name):
    """The affordable setting of a primitive with the best mean on the tuning seeds."""
    ours = [one for one in row["settings"] if one["name"] == name and one["affordable"]]
    return max(ours or [one for one in row["settings"] if one["name"] == "none"],
               key=lambda one: utility(one["tuning"]))  # fmt: skip


def thumb(goal, differ):
    if goal == "both":
        return "blend"
    return "s2s" if goal == "own" and differ else "s2a"


def procedures(row):
    """The setting that each procedure chooses on a fleet."""
    four = [choose(row, name) for name in ("none", "s2s", "blend", "s2a")]
    ours, bare = choose(row, thumb(row["goal"], row["differ"])), choose(row, "none")
    level = utility(bare["tuning"]) >= utility(ours["tuning"]) - row["tolerance"] / 2
    (advised,) = [one for one in row["settings"] if one["name"] == "skerry advise"]
    return {
        "skerry advise": advised,
        "S2S, S2A, blend or no server, the best on the tuning seeds": max(
            four, key=lambda one: utility(one["tuning"])
        ),
        "rule of thumb, or no server where it is level": bare if level else ours,
        "rule of thumb": ours,
        "the paper's guideline": choose(row, "s2s" if row["differ"] else "s2a"),
        "always S2S": choose(row, "s2s"),
        "always S2A": choose(row, "s2a"),
        "no server": bare,
    }


def judged():
    """Right, cheap and both, for each procedure."""
    found = {}
    for row in kept("advice", "controls")["rows"]:
        (best,) = [one for one in row["settings"] if one["name"] == "best of the grid"]
        for name, chosen in procedures(row).items():
            right = utility(best["scored"]) - utility(chosen["scored"]) <= row["tolerance"]
            cheap = chosen["cost"] <= 1.25 * row["cheapest_level_cost"]
            found.setdefault(name, []).append((right, cheap, right and cheap))
    return {
        name: [sum(column) for column in zip(*rows, strict=True)] for name, rows in found.items()
    }


def test_procedures_with_tuned_stepsizes(past):
    """The pilot beside rules whose stepsize is tuned on other seeds: three pages say the same."""
    found = judged()
    for text in (past, page("docs/advise.md")):
        for name, counts in found.items():
            lines = [line for line in text.splitlines() if line.startswith(f"| {name} | ")]
            wanted = " | ".join(f"{one} of 24" for one in counts)
            assert any(line.startswith(f"| {name} | {wanted} |") for line in lines), name
    right, _, both = found["skerry advise"]
    readme = " ".join(page("README.md").split())
    small = found["S2S, S2A, blend or no server, the best on the tuning seeds"]
    rows = kept("advice", "fleets")["rows"]
    strict = sum(row["rules"]["skerry advise"]["within"] for row in rows)
    lucky = [row["rules"]["skerry advise"] for row in rows]
    assert both == sum(one["within_corrected"] and one["cheap"] for one in lucky)
    assert f"hardly dearer than necessary in {both} (in {strict} by the strictest count)" in readme
    assert f"a rule of thumb managed both in {found['rule of thumb'][2]}," in readme
    assert f"fixed K and H in {small[2]}, and no server at all in {found['no server'][2]}" in readme
    assert f"`skerry advise` is right in {right} of 24 fleets" in past


def test_fresh_seeds_score_what_other_seeds_tuned():
    """Tuning and scored seeds are apart, and neither is a seed of the search or of the grid."""
    data = kept("advice", "controls")
    tuning, scored = set(data["tuning_seeds"]), set(data["scored_seeds"])
    assert not tuning & scored
    grid_and_refined = {*range(1000, 1030), *range(5000, 5060)}
    assert not grid_and_refined & (tuning | scored)
    for row in data["rows"]:
        assert {len(one["scored"]) for one in row["settings"]} == {len(scored)}
        assert {len(one["tuning"]) for one in row["settings"]} == {len(tuning)}


def test_the_choice_of_a_primitive(past):
    """A pilot beside a rule of thumb and always S2A, on cells with a clear winner."""
    data = kept("advice", "primitives")
    for place, (name, goal) in enumerate(product(("mnist", "digits"), ("global", "own"))):
        part = data[name]
        found = [row["goals"][goal] for row in part["rows"]]
        ps = [
            2 * stats.t.sf(abs(g["gap"]) / g["standard_error"], part["truth_seeds"] - 1)
            for g in found
        ]
        rising = [int(at) for at in np.argsort(ps)]
        passed = [rank for rank, at in enumerate(rising, 1) if ps[at] <= 0.05 * rank / len(ps)]
        decided = rising[: max(passed, default=0)]
        rules = {
            "a pilot": [g["advice"] for g in found],
            "rule of thumb": [
                thumb(goal, (row["inter"], row["intra"]) != ("iid", "iid")) for row in part["rows"]
            ],
            "always S2A": ["s2a"] * len(found),
        }
        for rule, choices in rules.items():
            wrong = [choice != g["winner"] for choice, g in zip(choices, found, strict=True)]
            lost = [abs(g["gap"]) * bad for g, bad in zip(found, wrong, strict=True)]
            right = sum(not wrong[at] for at in decided)
            shown = f"{right} of {len(decided)} ({math.fsum(lost) / len(lost):.3f})"
            lines = [line for line in past.splitlines() if line.startswith(f"| {rule} | ")]
            assert any(line.split(" | ")[place + 1].rstrip(" |") == shown for line in lines), rule


# Blends


def unpacked(column):
    if isinstance(column, list):
        return column
    if "rows" in column:
        values = [None] * column["rows"]
        for at, value in zip(column["at"], column["values"], strict=True):
            values[at] = value
        return values
    counts = column.get("counts", [1] * len(column["codes"]))
    pairs = zip(column["codes"], counts, strict=True)
    return [column["levels"][code] for code, count in pairs for _ in range(count)]


def rows_of(table):
    columns = {name: unpacked(column) for name, column in table.items()}
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def blend_points():
    """Both goals by cell, beta, stepsize and seed."""
    found = {}
    for row in rows_of(kept("reproduction", "mnist-blend")["runs"]):
        if row["inter"] == "non-iid":
            cell = (row["period"], row["intra"], row["topology"])
            point = row["average_accuracy last 20"], row["own_accuracy last 20"]
            by_step = found.setdefault(cell, {}).setdefault(row["beta"], {})
            by_step.setdefault(row["stepsize"], {})[row["seed"]] = point
    return found


def test_blends_lie_above_the_line(past, authors):
    """In the plane of both goals, beside the line between S2S and S2A at H = 5 and 20."""
    for H in (5, 20):
        lines, places = [], []
        for cell, by_beta in blend_points().items():
            if cell[0] != H:
                continue
            tuned = {}
            for beta, by_step in by_beta.items():
                steps = sorted(by_step)
                both = [[np.mean(by_step[step][s]) for s in range(5)] for step in steps]
                average, own = (
                    elsewhere([[by_step[step][s][goal] for s in range(5)] for step in steps], both)
                    for goal in (0, 1)
                )
                tuned[beta] = average, own
            for beta in (0.1, 0.25, 0.5, 0.75, 0.9):
                distances = []
                for s in range(5):
                    (x, y), (x0, y0), (x1, y1) = (
                        (tuned[b][0][s], tuned[b][1][s]) for b in (beta, 0.0, 1.0)
                    )
                    on_line = np.polyval(np.polyfit([x0, x1], [y0, y1], 1), x)
                    distances.append(y - on_line)
                lines.append(np.array(distances))
                places.append((*cell, beta))
        shown = dict(zip(places, told(lines), strict=True))
        for _, intra, topology in dict.fromkeys(place[:3] for place in places):
            name = "islands differ" if intra == "iid" else "both differ"
            wanted = [shown[H, intra, topology, b] for b in (0.1, 0.25, 0.5, 0.75, 0.9)]
            assert f"| {name} | {topology} | {' | '.join(wanted)} |" in past
        means = [line.mean() for line in lines]
        words = f"{ends(means)} points above the line ({sum(s > 0 for s in clear(lines))} of 20"
        assert words in past
        assert (words in authors) == (H == 5)


# The horizon


def test_the_lead_of_s2s_by_stretches(past, authors):
    """S2S minus S2A on CIFAR-10 in each stretch of 100 rounds, paired by seed; FedAvgM beside."""
    data = kept("reproduction", "cifar10-long")
    runs = rows_of(data["runs"])
    curves = {name: unpacked(data["curves"][name]) for name in ("run", "round", AVERAGE, OWN)}
    by_run = {}
    for run, at, average, own in zip(*curves.values(), strict=True):
        by_run.setdefault(run, []).append((at, average, own))

    def gaps(optimizer, goal, first, last):
        means = {}
        for run, row in enumerate(runs):
            usual = (row["topology"], row["intra"], row["inter"]) == ("ring", "iid", "non-iid")
            if usual and row["optimizer"] == optimizer:
                values = [
                    p[goal] for p in by_run[run] if first <= p[0] <= last and p[goal] is not None
                ]
                means[row["primitive"], row["seed"]] = math.fsum(values) / len(values)
        return np.array([means["s2s", seed] - means["s2a", seed] for seed in range(3)])

    for goal, name in ((1, "average model"), (2, "devices, own labels")):
        ends = range(100, 1001, 100)
        shown = dict(zip(ends, told([gaps("fedavg", goal, t - 99, t) for t in ends]), strict=True))
        assert cells(past, f"{name}, 3 seeds") == [shown[t] for t in SHOWN]
    for goal in (1, 2):
        change = gaps("fedavgm", goal, 1, 1000) - gaps("fedavg", goal, 1, 1000)
        assert interval(change) in authors
    printed = json.loads(page("src/skerry_paper/printed.json"))["statements"]
    (stated,) = [one["value"] for one in printed if one["key"] == "fig12_change"]
    assert f"({stated:+.2f} points)" in authors


# The authors' page


def test_ten_lines_each_with_a_number(authors):
    lines = re.findall(r"^(\d+)\. (.*)$", authors, re.MULTILINE)
    assert [int(number) for number, _ in lines] == [*range(1, 11)]
    for _, line in lines:
        assert re.search(r"\d\.\d|\d of \d", line), line
        assert re.search(r"\]\([\w/-]+\.md", line), line


def test_the_appendix_by_hand(authors):
    """The counterexample in plain floats; p from eigenvalues; coefficients from their formula."""
    eta, H, zeta, rounds = 1 / 16.08, 400, 1e-6, 40_000
    y, z, total = [0.0, 0.0], [0.0, 0.0], 0.0

    def slope(a, b):
        return -math.sin(a) * (1 + math.sin(b) / 2), b - math.cos(b) * (1 - math.cos(a)) / 2

    for t in range(rounds):
        total += sum(part**2 for part in slope(sum(y) / 2, sum(z) / 2))
        slopes = [slope(a, b) for a, b in zip(y, z, strict=True)]
        y = [a - eta * (g[0] + tilt) for a, g, tilt in zip(y, slopes, (zeta, -zeta), strict=True)]
        z = [b - eta * g[1] for b, g in zip(z, slopes, strict=True)]
        if t % H == 0:
            y, z = [sum(y) / 2] * 2, [sum(z) / 2] * 2
    lowest = 0.7390851332151607
    f0 = 2 + math.sin(lowest) - lowest**2 / 2
    # 4 f0/(eta N), and a heterogeneity term of 560 L^2 H (H - 1) zeta^2 eta^2 at q = 1.
    promised = 4 * f0 / (eta * rounds) + 560 * 4 * H * (H - 1) * zeta**2 * eta**2
    assert f"gives {promised:.4f} on" in authors
    assert f"is {total / rounds:.2f}: {total / rounds / promised:.0f} times as much" in authors
    path = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]]) / 3
    second = sorted(np.linalg.eigvalsh(path))[-2]
    assert f"at most {(1 - (1 + 2 * (1 - second**2)) / 3):.1%}" in authors
    assert f"and {second**2:.1%} can be" in authors
    assert f"are {192 * 0.01 + 560 * 20 * 0.01:.2f} and " in authors


def test_printed_gaps_beside_both_constants(authors):
    """The two lines on printed gaps have the numbers of the reproduction's front page, which other
    tests recompute; `predicted` needs a distance below both constants by its whole interval."""
    front = page("docs/reproduction/README.md")
    for name in ("MNIST", "CIFAR-10"):
        (line,) = [one for one in authors.splitlines() if f"**Your {name} gaps" in one]
        rows = {}
        for row in front.splitlines():
            if row.startswith(f"| {name} |") and row.count("|") == 8:
                scored, stepsize, distance = [one.strip() for one in row.split("|")[2:5]]
                rows[scored, stepsize] = distance
        own = rows["all samples, devices, own labels", "tuned"]
        zero, always = rows["zero", "-"], rows["always S2S", "-"]
        assert f"are {own} points from yours" in line
        assert f"no gap is {zero} away" in line
        assert f"always S2S, {always}." in line
        mean, half = map(float, own.split(" ± "))
        assert ("gaps are predicted" in line) == (mean + half < min(float(zero), float(always)))
        fixed = {s: d for (scored, s), d in rows.items() if scored == "by the conventions"}
        assert f"the distance is {fixed.pop('tuned')} with tuned" in line
        stepsize, distance = min(fixed.items(), key=lambda one: float(one[1].split()[0]))
        assert f"{distance} at stepsize {stepsize}," in line
