"""The theory explorer computes in the page what `skerry.theory` computes in Python."""

import json
import math
import random
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import skerry.report.page
from browser import DESKTOP
from skerry.config.experiment import Experiment
from skerry.network.fleet import build_fleet
from skerry.report.page.build import EXPLORER
from skerry.report.page.sections.theory import ALIKE, explorer_start
from skerry.report.style import PRIMITIVES
from skerry.theory.crossings import stretches
from skerry.theory.operators import exchange_matrix
from skerry.theory.parameters import Parameters
from skerry.theory.participation import exchange_under
from skerry.theory.rounds_and_messages import ask

ASSETS = Path(skerry.report.page.__file__).parent / "assets"
MODES = ("order", "printed", "repaired")
FIGURE = {
    "devices": 100,
    "components": 2,
    "sampled": 20,
    "period": 5,
    "p": 1.0,
    "zeta_intra": 1.0,
    "zeta_inter": 0.1,
    "sigma2": 0.0,
    "smoothness": 1.0,
    "initial_error": 1.0,
    "epsilon": 1e-5,
}
CORNERS = [
    {"sampled": 1},
    {"sampled": 100},
    {"period": 1},
    {"p": 0.01},
    {"zeta_intra": 0.0},
    {"zeta_inter": 0.0},
    {"zeta_intra": 0.0, "zeta_inter": 0.0},
    {"zeta_intra": 0.0, "zeta_inter": 0.0, "sampled": 1, "period": 30},
    {"sigma2": 3.0},
    {"devices": 1, "sampled": 1, "components": 1},
    {"devices": 2, "sampled": 1, "components": 2},
    {"devices": 3, "sampled": 2, "components": 1},
    {"components": 100},
    {"components": (30, 70)},
    {"components": (1, 1, 98)},
]
MOUNT = """([start, colours]) => {
    const plot = (where, ...what) => { Plotly.react(where, ...what, { responsive: true }); };
    return SkerryExplorer.mount(document.getElementById("root"), start, { plot, colours });
}"""


@pytest.fixture(scope="module")
def script(browser):
    """A page that has only the explorer's scripts."""
    page = browser.new_page()
    page.set_content("<!doctype html><title>explorer</title>")
    for name in EXPLORER:
        page.add_script_tag(path=ASSETS / name)
    yield page
    page.close()


@contextmanager
def mounted_in(browser):
    """The explorer of the default experiment in a bare page, with plotly itself."""
    from plotly.offline import get_plotlyjs

    page = browser.new_page(viewport=DESKTOP)
    faults = []
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.set_content("<!doctype html><title>explorer</title><div id='root'></div>")
    page.add_style_tag(path=ASSETS / "explorer.css")
    page.add_script_tag(content=get_plotlyjs())
    for name in EXPLORER:
        page.add_script_tag(path=ASSETS / name)
    experiment = Experiment()
    start = explorer_start(experiment, build_fleet(experiment.network, experiment.seed))
    page.evaluate(MOUNT, [json.loads(json.dumps(start, allow_nan=False)), PRIMITIVES])
    yield page
    assert faults == []
    page.close()


@pytest.fixture(scope="module")
def explorer(browser):
    """A page that tests of quick bounds share."""
    with mounted_in(browser) as page:
        yield page


@pytest.fixture
def mounted(explorer):
    """The shared page, which is reset after each test."""
    yield explorer
    explorer.get_by_role("button", name="Reset to the experiment").click()


@pytest.fixture
def unshared(browser):
    """A page of its own, for tests that begin long computations: closing it ends them."""
    with mounted_in(browser) as page:
        yield page


def certify(page):
    """Choose certified bounds, and beta of the slider at once: the best one takes long to find."""
    page.evaluate(
        """() => {
            const bound = document.querySelector("[id$=-mode]");
            bound.value = "certified";
            bound.dispatchEvent(new Event("change"));
            document.querySelector("[id$=-best]").click();
        }"""
    )


def settings(count, seed=0):
    """The corners of the theory, and points anywhere in it."""
    draw = random.Random(seed)
    found = [FIGURE | corner for corner in CORNERS]
    for _ in range(count):
        n = draw.choice([1, 2, 3, 4, draw.randint(2, 60), draw.randint(2, 2000)])
        found.append(
            {
                "devices": n,
                "components": draw.randint(1, min(n, 6)),
                "sampled": draw.choice([1, n, draw.randint(1, n), draw.randint(1, n)]),
                "period": draw.choice([1, draw.randint(1, 50)]),
                "p": draw.choice([1.0, 10 ** draw.uniform(-3, 0)]),
                "zeta_intra": draw.choice([0.0, 10 ** draw.uniform(-2, 1)]),
                "zeta_inter": draw.choice([0.0, 10 ** draw.uniform(-2, 1)]),
                "sigma2": draw.choice([0.0, 10 ** draw.uniform(-2, 1)]),
                "smoothness": 10 ** draw.uniform(-1, 1),
                "initial_error": 10 ** draw.uniform(-1, 1),
                "epsilon": 10 ** draw.uniform(-6, 0),
            }
        )
    return found


def in_page(page, questions):
    """Every question's rounds, messages, stepsize and terms; JSON has no infinity, text has."""
    answers = page.evaluate(
        """(questions) => questions.map((question) => {
            const { rounds, messages, stepsize, terms } = SkerryRoundsAndMessages.ask(...question);
            const numbers = { rounds, messages, stepsize, ...terms };
            return Object.entries(numbers).map(([name, value]) => [name, String(value)]);
        })""",
        questions,
    )
    return [{name: as_number(text) for name, text in answer} for answer in answers]


def as_number(text):
    return math.nan if text in ("null", "NaN") else float(text.replace("Infinity", "inf"))


def in_python(setting, primitive, mode, convex, beta=0.5):
    answer = ask(Parameters(**setting), primitive, mode, convex, beta=beta)
    step = math.nan if answer.stepsize is None else answer.stepsize
    numbers = {"rounds": answer.rounds, "messages": answer.messages, "stepsize": step}
    return numbers | (dict(answer.terms) if math.isfinite(answer.rounds) else {})


def assert_same(page, questions):
    for question, ours in zip(questions, in_page(page, questions), strict=True):
        for name, theirs in in_python(*question).items():
            close = math.isclose(
                ours[name], theirs, rel_tol=1e-6, abs_tol=1e-12 * question[0]["epsilon"]
            )
            both_undefined = math.isnan(ours[name]) and math.isnan(theirs)
            assert close or both_undefined, (question, name, ours[name], theirs)


@pytest.mark.parametrize("convex", [False, True], ids=["any", "convex"])
@pytest.mark.parametrize("mode", MODES)
def test_closed_forms(script, mode, convex):
    """Rounds, messages, stepsize and every term of the theorems are Python's to 1e-6."""
    found = settings(150)
    assert_same(script, [[x, who, mode, convex] for x in found for who in ("s2s", "s2a")])


@pytest.mark.slow
def test_certified(script):
    """So are those of the certified recursion, for S2S, S2A and blends of any beta."""
    draw = random.Random(5)
    assert_same(
        script,
        [
            [x, who, "certified", draw.random() < 0.5, round(draw.random(), 2)]
            for x in settings(10, seed=1)
            for who in ("s2s", "s2a", "blend")
        ],
    )


@pytest.mark.parametrize("selection", ["per_component", "one_each"])
def test_certified_by_rule(script, selection):
    """So are those of other rules of selection, on islands of equal and of several sizes."""
    wide = FIGURE | {"epsilon": 1e-2, "p": 0.1, "zeta_inter": 1.0, "selection": selection}
    changes = [
        {},
        {"sampled": 2},
        {"sampled": 98, "sigma2": 3.0},
        {"components": 1},
        {"components": 10, "period": 20},
        {"components": 50, "sampled": 50},
        {"components": (30, 70)},
        {"components": (1, 1, 8, 90), "period": 1},
        {"devices": 10, "components": (2, 3, 5), "sampled": 3},
    ]
    if selection == "per_component":
        changes += [{"sampled": 7}, {"components": 10, "sampled": 13}, {"components": 9}]
    assert_same(
        script,
        [
            [wide | change, who, "certified", convex, 0.3]
            for change in changes
            for who, convex in (("s2s", False), ("s2a", True), ("blend", False))
        ],
    )


def test_the_page_says_what_it_cannot_compute(script):
    """No number is better than a wrong one, or than a page that stops to answer."""
    for change, words in (
        ({"selection": "one_each", "sampled": 21}, "21 is no multiple of 2"),
        ({"selection": "per_component", "components": 30}, "30 islands of several sizes"),
    ):
        said = script.evaluate(
            """(x) => SkerryExplorerWords.verdict(x, {
                s2s: SkerryRoundsAndMessages.ask(x, "s2s", "certified", false),
                s2a: SkerryRoundsAndMessages.ask(x, "s2a", "certified", false),
            }, "certified")""",
            FIGURE | change,
        )
        assert words in said


def test_the_best_blend(script):
    """The page finds the same best beta as Python, and the same rounds with it."""
    wide = FIGURE | {"epsilon": 1e-2, "p": 0.1}
    for x in (wide, wide | {"sampled": 100}, wide | {"zeta_inter": 0.0}):
        answer = script.evaluate(
            "(x) => SkerryRoundsAndMessages.ask(x, 'blend', 'certified', false, 'best')", x
        )
        theirs = ask(Parameters(**x), "blend", "certified", False, beta="best")
        assert answer["beta"] == pytest.approx(theirs.beta, rel=1e-6)
        assert answer["rounds"] == pytest.approx(theirs.rounds, rel=1e-6)
        assert answer["messages"] == pytest.approx(theirs.messages, rel=1e-6)


@pytest.mark.parametrize(
    "sizes", [(50, 50), (1, 1), (3,), (1, 1, 5), (30, 70), (4, 4, 9), (2, 3, 3, 1)]
)
def test_the_exchange_of_energy(script, sizes):
    """The page's M is Python's, for islands of any sizes and any number of sampled devices."""
    n = sum(sizes)
    for K in {1, 2, n // 2, n - 1, n} - {0}:
        ours = script.evaluate(
            "([sizes, K]) => SkerryServerRound.exchangeMatrix(sizes, K, 0.25)", [sizes, K]
        )
        theirs = exchange_matrix(sizes, K, 0.25).ravel()
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("rule", ["uniform", "per_component", "one_each"])
@pytest.mark.parametrize(
    "sizes",
    [(50, 50), (1, 1), (3,), (4, 4, 4), (30, 70), (4, 4, 9), (2, 3, 3, 1), (5, 2, 9, 4, 4, 7, 1)],
)
def test_the_exchange_under_a_rule(script, rule, sizes):
    """Both kappas and M are Python's, for every number of sampled devices."""
    n, C = sum(sizes), len(sizes)
    for K in range(C if rule == "one_each" else 1, n + 1, C if rule == "one_each" else 1):
        ours = script.evaluate(
            "([rule, sizes, K]) => SkerryServerRound.exchangeUnder(rule, sizes, K)",
            [rule, sizes, K],
        )
        theirs = exchange_under(rule, "equal", sizes, K)
        np.testing.assert_allclose(ours["kappas"], theirs[:2], rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(ours["M"], theirs.M.ravel(), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("measure", ["rounds", "messages"])
@pytest.mark.parametrize("axis", ["sampled", "period", "p", "epsilon"])
def test_the_lead_changes_where_python_says(script, axis, measure):
    """Crossings along an axis are those of `skerry.theory.crossings`."""
    values = {
        "sampled": list(range(1, 101)),
        "period": list(range(1, 51)),
        "p": np.linspace(0.01, 1, 100).tolist(),
        "epsilon": np.geomspace(1e-6, 1, 40).tolist(),
    }[axis]
    whole = axis in ("sampled", "period")
    ours = script.evaluate(
        """([x, axis, values, measure, whole]) => SkerryCrossings.stretches(values, (value) => {
            const at = { ...x, [axis]: value };
            const cost = (who) => SkerryRoundsAndMessages.ask(at, who, "order", false)[measure];
            return { s2s: cost("s2s"), s2a: cost("s2a") };
        }, !whole)""",
        [FIGURE, axis, values, measure, whole],
    )

    def costs(at):
        rows = [FIGURE | {axis: value} for value in at.tolist()]
        return {
            who: np.array([in_python(row, who, "order", False)[measure] for row in rows])
            for who in ("s2s", "s2a")
        }

    theirs = stretches(np.array(values, dtype=float), costs, continuous=not whole)
    assert [one["winner"] for one in ours] == [one.winner for one in theirs]
    for one, other in zip(ours, theirs, strict=True):
        assert (one["first"], one["last"]) == pytest.approx((other.first, other.last), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "S2A needs fewer rounds here"),
        ({"zeta_inter": 1.0}, "S2S needs fewer rounds here"),
        ({"zeta_inter": 1.0}, "it also needs fewer messages"),
        ({"sampled": 1}, "Only S2A converges"),
        ({"sampled": 100}, "S2S and S2A are the same here"),
        ({"zeta_intra": 0.0, "zeta_inter": 0.0}, "S2S and S2A need the same number of rounds"),
    ],
)
def test_the_verdict_in_words(script, change, words):
    """One sentence names who needs fewer, and every number in it is from the answers."""
    said = script.evaluate(
        """(x) => SkerryExplorerWords.verdict(x, {
            s2s: SkerryRoundsAndMessages.ask(x, "s2s", "order", false),
            s2a: SkerryRoundsAndMessages.ask(x, "s2a", "order", false),
        }, "order")""",
        FIGURE | change,
    )
    assert words in said
    assert "NaN" not in said
    assert "undefined" not in said


@pytest.mark.parametrize(
    ("settings", "mode", "words"),
    [
        ((), "certified", None),
        (("server.selection=per_component",), "certified", "in proportion to its size"),
        (("server.selection=per_component",), "order", "Certified bounds take this into account"),
        (("server.selection=round_robin",), "certified", "uniform sampling is assumed instead"),
        (("server.weights=stratified",), "certified", "server.weights is stratified"),
        (("server.selection=one_each",), "certified", "weights islands by size"),
    ],
)
def test_what_does_not_hold_under_a_rule_is_said(script, settings, mode, words):
    experiment = Experiment.parse({}, list(settings))
    start = explorer_start(experiment, None)
    asked = [start, start["values"] if mode == "certified" else FIGURE, mode]
    said = script.evaluate("(asked) => SkerryExplorerWords.samplingInWords(...asked)", asked)
    assert (said == []) if words is None else (words in " ".join(said))


def test_the_explorer_starts_at_the_experiment():
    """What the experiment and its network say is taken from them; the rest is called assumed."""
    experiment = Experiment.parse(
        {},
        ["network.devices=12", "network.components=[4, 8]", "server.sampled=5", "data.inter=iid"],
    )
    fleet = build_fleet(experiment.network, experiment.seed)
    start = explorer_start(experiment, fleet)
    values, sources = start["values"], start["sources"]
    assert (values["devices"], values["sampled"], values["period"]) == (12, 5, 5)
    assert values["components"] == [4, 8]
    assert values["p"] == pytest.approx(fleet.mixing_parameters().minimum, rel=1e-3)
    assert values["zeta_inter"] == ALIKE
    assert sources["p"] == "network"
    assert sources["sampled"] == "experiment"
    assert sources["epsilon"] == sources["zeta_inter"] == sources["sigma2"] == "assumed"
    assert (values["selection"], sources["selection"]) == ("uniform", "experiment")
    for rule, known in (("one_each", True), ("per_component", True), ("round_robin", False)):
        other = explorer_start(
            experiment.with_settings(f"server.selection={rule}", "server.sampled=4"), fleet
        )
        assert other["values"]["selection"] == (rule if known else "uniform")
        assert other["sources"]["selection"] == ("experiment" if known else "assumed")
    without = explorer_start(experiment, None)
    assert (without["values"]["p"], without["sources"]["p"]) == (1.0, "assumed")
    assert json.loads(json.dumps(start, allow_nan=False)) == start
    fields = {name: value for name, value in values.items() if name != "beta"}
    Parameters(**fields | {"components": tuple(values["components"])})


def test_keys_move_sliders_and_everything_follows(mounted):
    """A key press on a slider changes its number, the sentence, the table and the curves."""
    before = {part: mounted.inner_text(part) for part in (".explorer-verdict", "table", "code")}
    curves = "() => document.querySelector('.explorer-figure').data[0].y.join()"
    drawn = mounted.evaluate(curves)
    sampled = mounted.get_by_label("sampled by the server K", exact=True)
    sampled.focus()
    mounted.keyboard.press("ArrowRight")
    mounted.wait_for_function(
        "() => document.querySelector('code').textContent.includes('sampled 21')"
    )
    mounted.wait_for_function(
        "(before) => document.querySelector('.explorer-verdict').textContent !== before",
        arg=before[".explorer-verdict"],
    )
    assert mounted.get_by_label("sampled by the server, as a number").input_value() == "21"
    assert sampled.get_attribute("aria-valuetext") == "21"
    for part, text in before.items():
        assert mounted.inner_text(part) != text
    assert mounted.evaluate(curves) != drawn
    mounted.get_by_role("button", name="Reset to the experiment").click()
    mounted.wait_for_function(
        "(before) => document.querySelector('.explorer-verdict').textContent === before",
        arg=before[".explorer-verdict"],
    )


def test_every_slider_moves_with_every_key(mounted):
    """No key press is lost to rounding, at either end or in between."""
    for slider in mounted.query_selector_all(".explorer-slider input[type=range]"):
        if not slider.is_visible():
            continue
        box = slider.evaluate_handle("(range) => range.parentNode.querySelector('[type=number]')")
        for end, key in (("Home", "ArrowRight"), ("End", "ArrowLeft")):
            slider.press(end)
            before = box.evaluate("(box) => box.value")
            slider.press(key)
            assert box.evaluate("(box) => box.value") != before


def test_the_number_in_the_box_is_obeyed_or_refused(mounted):
    """A typed number is taken if the theory can take it, else the last one comes back."""
    box = mounted.get_by_label("target accuracy, as a number")
    for typed, taken in (("0.003", "0.003"), ("-1", "0.003"), ("", "0.003"), ("0", "0.003")):
        box.fill(typed)
        box.press("Enter")
        assert box.input_value() == taken
    devices = mounted.get_by_label("devices, as a number", exact=True)
    devices.fill("8")
    devices.press("Enter")
    assert mounted.get_by_label("sampled by the server, as a number").input_value() == "8"


def test_the_crossing_is_marked_and_blend_appears_when_certified(unshared):
    """Where the winner changes there is a mark; certified bounds add blend's curve."""
    names = "() => document.querySelector('.explorer-figure').data.map((trace) => trace.name)"
    marks = """() => { const traces = document.querySelector('.explorer-figure').data;
        return traces.find((trace) => trace.name.includes('winner changes')).x; }"""
    (at,) = unshared.evaluate(marks)
    x = FIGURE | {"p": 0.01049, "zeta_intra": 0.1, "zeta_inter": 1.0, "epsilon": at}
    rounds = [in_python(x, who, "order", False)["rounds"] for who in ("s2s", "s2a")]
    assert rounds[0] == pytest.approx(rounds[1], rel=1e-6)
    assert "blend" not in unshared.evaluate(names)
    certify(unshared)
    unshared.wait_for_function(f"() => ({names})().includes('blend')")
    assert "Blend with β" in unshared.inner_text(".explorer-notes")
    assert unshared.get_by_label("use the best β").is_visible()


@pytest.mark.slow
def test_whom_the_server_samples_can_be_chosen(unshared):
    """In certified mode: the numbers, the command and the sampled devices follow the rule."""
    sampling, bound = unshared.get_by_label("Sampling"), unshared.get_by_label("Bound")
    sampled = unshared.get_by_label("sampled by the server, as a number")
    sampled.fill("21")
    sampled.press("Enter")
    assert not sampling.is_visible()
    certify(unshared)
    unshared.wait_for_function("() => document.querySelectorAll('tbody tr').length === 3")
    assert "--selection" not in unshared.inner_text("code")
    rounds = "document.querySelector('tbody').textContent"
    uniform = unshared.evaluate(f"() => {rounds}")
    sampling.select_option("one_each")
    unshared.wait_for_function(f"(before) => {rounds} !== before", arg=uniform)
    assert sampled.input_value() == "22"
    assert "--selection one_each" in unshared.inner_text("code")
    assert "The server samples equally many devices of every island" in unshared.inner_text(
        ".explorer-notes"
    )
    sampled.fill("3")
    sampled.press("Enter")
    assert sampled.input_value() == "4"
    bound.select_option("order")
    assert not sampling.is_visible()
    assert "--selection" not in unshared.inner_text("code")
    unshared.get_by_role("button", name="Reset to the experiment").click()
    assert sampled.input_value() == "20"


def test_a_phone_shows_it_without_scrolling_sideways(unshared):
    """Everything fits into 390 pixels, but for the table, which scrolls by itself."""
    unshared.set_viewport_size({"width": 390, "height": 800})
    unshared.wait_for_function("() => document.documentElement.scrollWidth <= 390")
    certify(unshared)
    assert unshared.get_by_label("Sampling").is_visible()
    unshared.wait_for_function("() => document.documentElement.scrollWidth <= 390")


def test_only_text_nodes_are_written():
    """Nothing that the explorer is given can become markup."""
    for name in EXPLORER:
        source = (ASSETS / name).read_text(encoding="utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in source
