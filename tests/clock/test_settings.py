"""Clock files: units, defaults, the examples, and the file that `skerry clock new` prints."""

import math
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import skerry
from command_line import skerry as command
from docs_pages import ROOT
from skerry.clock.settings import EXAMPLES, Clock, example_text, read_clock
from skerry.clock.template import STARTING_POINT, commented_clock
from skerry.clock.units import bytes_per_second, seconds, write_joules, write_seconds
from skerry.config.experiment import Experiment
from skerry.errors import ExperimentError


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5 ms", 0.005),
        ("5ms", 0.005),
        (" 2.5e-1 s ", 0.25),
        ("3 us", 3e-6),
        ("3 µs", 3e-6),
        ("1.5 min", 90.0),
        (".5 h", 1800.0),
        ("7", 7.0),
        (0, 0.0),
        (0.25, 0.25),
    ],
)
def test_durations(text, value):
    assert seconds(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20 MB/s", 20e6),
        ("8 Mbit/s", 1e6),
        ("8 Mbps", 1e6),
        ("1 GiB/s", 2**30),
        ("5.47 kbit/s", 683.75),
        ("8 bit/s", 1.0),
        ("12 B/s", 12.0),
        ("3", 3.0),
        (2e7, 2e7),
    ],
)
def test_bandwidths(text, value):
    assert bytes_per_second(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("read", [seconds, bytes_per_second])
@pytest.mark.parametrize("wrong", [True, None, [], "", "ms", "-1 s", "1 x", "nan", "1e999", "1 2"])
def test_everything_else_is_refused(read, wrong):
    with pytest.raises(ValueError, match=r"got|unknown unit"):
        read(wrong)


@given(st.floats(1e-6, 1e10))
def test_what_is_written_is_what_was_meant(value):
    """To three digits, in a unit that makes the number short."""
    for text, sizes in (
        (write_seconds(value), {"ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": 86_400}),
        (write_joules(value), {"mJ": 1e-3, "J": 1, "kJ": 1e3, "MJ": 1e6, "GJ": 1e9}),
    ):
        number, unit = text.split()
        assert float(number.replace(",", "")) * sizes[unit] == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_one_and_names_its_sources(name):
    """Each says that it is no fact; each section has numbers and at least one source or mark."""
    text = example_text(name)
    clock = read_clock(name)
    assert "An example, not a fact" in " ".join(text.replace("#", "").split())
    assert clock.compute.seconds_per_step > 0
    assert clock.compute.watts > clock.compute.idle_watts > 0
    for link in (clock.d2d, clock.uplink, clock.downlink):
        assert link.bandwidth is not None
        assert link.latency > 0
        assert link.joules_per_byte > 0
    assert re.search(r"(19|20)\d\d|data sheet|ETSI|IEEE", text)
    assert max(map(len, text.splitlines())) <= 100


def test_the_energies_of_the_lte_example_follow_from_their_source():
    """Huang et al.: 1288 mW, and 438 mW per Mbit/s up or 52 mW down, at 6 and 13 Mbit/s."""
    clock = read_clock("lte_phone")
    assert clock.uplink.joules_per_byte == pytest.approx((1.288 + 6 * 0.438) / 750e3, rel=0.02)
    assert clock.downlink.joules_per_byte == pytest.approx((1.288 + 13 * 0.052) / 1.625e6, rel=0.02)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_prices_a_real_run(name):
    """With seconds and joules that only rise, and a share of waiting."""
    tiny = Experiment.parse({}, ["rounds=6", "network.devices=8", "server.sampled=2"])
    skerry.run(tiny, compare=["s2s", "s2a"], seeds=1, out="runs")
    frame = skerry.load("runs", clock=name)
    for _, rows in frame.groupby("key"):
        for column in ("seconds", "seconds_mean", "joules", "joules_max"):
            assert rows[column].iloc[0] == 0
            assert (rows[column].diff().dropna() > 0).all()
        assert rows["waiting"].between(0, 100).all()


def test_a_new_clock_names_every_field_with_its_description():
    """Its values are those of an example; it reads as the same clock."""
    text = commented_clock()
    words = " ".join(text.replace("#", "").split())
    for name, field in Clock.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        for one, about in (inner or {name: field}).items():
            assert re.search(rf"^(# )?{one} = \S", text, re.MULTILINE), one
            assert " ".join(about.description.split()) in words
    assert Clock.parse(tomllib.loads(text)) == read_clock(STARTING_POINT)
    # Fields that are left out are examples, too: they can be read without their mark.
    opened = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    assert Clock.parse(tomllib.loads(opened)).downlink.broadcast == 5e6


def test_the_page_has_a_row_for_every_field():
    """docs/clock.md says section, field and default of everything that a clock file takes."""
    page = (ROOT / "docs" / "clock.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?:`\[(\w+)\]`)? ?\| `(\w+)` \| ([^|]*)\|", page, re.MULTILINE)
    expected = []
    for name, field in Clock.model_fields.items():
        inner = getattr(field.annotation, "model_fields", None)
        for one, about in (inner or {name: field}).items():
            default = about.get_default(call_default_factory=True)
            words = {"broadcast": "none"}.get(one, "no limit" if default is None else default)
            words = f"{words:g}" if isinstance(words, float) else words or ""
            expected.append((name if inner else "", one, words))
    assert [(section, field, default.strip()) for section, field, default in rows] == expected


def test_clock_new_prints_a_file_that_prices_runs():
    """`skerry clock new > x.toml; skerry price runs --clock x.toml`."""
    tiny = Experiment.parse({}, ["rounds=3", "network.devices=8", "server.sampled=2"])
    skerry.run(tiny, compare=["s2s", "s2a"], seeds=3, out="runs")
    printed = command("clock", "new")
    assert (printed.code, printed.err) == (0, "")
    Path("x.toml").write_text(printed.out, encoding="utf-8")
    priced = command("price", "runs", "--clock", "x.toml")
    assert (priced.code, priced.err) == (0, "")
    assert "Clock x.toml: whole runs, mean over 3 seeds" in priced.out


@pytest.mark.parametrize("name", EXAMPLES)
def test_clock_new_prints_an_example_as_it_is(name):
    assert command("clock", "new", "--example", name).out == example_text(name)


def test_a_step_is_measured_on_this_machine():
    """The comment says what was measured; the factor is part of the number."""
    Path("mine.toml").write_text("[network]\ndevices = 8\n[server]\nsampled = 2\n")
    printed = command("clock", "new", "--measured", "mine.toml", "--times", "1000")
    assert (printed.code, printed.err) == (0, "")
    table = tomllib.loads(printed.out)
    measured = table["compute"]["seconds_per_step"]
    assert 0.001 < measured < 1000
    said = re.search(r"# Measured: (\S+) (ms|s) for one local step of one device of mine.toml\n"
        r"# \(model linear, 650 parameters, \d+ samples\).*\n# CPU, the quickest of 51 steps \(the "
        r"slowest took .*\), times 1000",
        printed.out)  # fmt: skip
    assert said
    each = float(said[1]) * {"ms": 1e-3, "s": 1}[said[2]]
    assert measured == pytest.approx(1000 * each, rel=0.02)


def test_clock_show_says_what_a_message_costs():
    """1,000 parameters are 4,000 bytes: 4 s at 1 kB/s, and the latency."""
    Path("c.toml").write_text(
        '[compute]\nseconds_per_step = 2\nslow = { porch = 4.0 }\n[d2d]\nchannel = "shared"\n'
        '[uplink]\nbandwidth = "1 kB/s"\nlatency = "500 ms"\njoules_per_byte = 1e-3\n'
        '[downlink]\nbroadcast = "2 kB/s"\n[server]\nbandwidth_in = "4 kB/s"\n'
    )
    shown = command("clock", "show", "c.toml", "--parameters", "1000")
    assert (shown.code, shown.err) == (0, "")
    for line in (
        "A message of 1,000 parameters has 4,000 bytes (4 bytes each).",
        "Local step: 2 s; slower: porch 4 times; 0 W while computing, 0 W otherwise.",
        "To the server: 4.5 s, 4 J.",
        "From the server, to one device: 0 s (no limit of bandwidth), 0 J.",
        "From the server, to all devices: 2 s for one broadcast.",
        "The server receives 100 messages in 100 s.",
        "The server sends any number of messages at once.",
    ):
        assert line in shown.out.splitlines()
    assert "all messages of an island go over one channel" in shown.out


def test_a_clock_may_be_a_path_a_name_tables_or_itself():
    table = {"compute": {"seconds_per_step": "1 s"}}
    Path("c.toml").write_text('[compute]\nseconds_per_step = "1 s"\n')
    clock = read_clock(table)
    assert clock == read_clock("c.toml") == read_clock(Path("c.toml")) == read_clock(clock)
    assert read_clock({}) == Clock()
    assert math.isclose(clock.compute.seconds_per_step, 1)


def test_faults_of_tables_are_told_at_once():
    with pytest.raises(ExperimentError) as caught:
        read_clock(
            {
                "compute": {"spread": -1, "slow": {"a": True}, "jitter": 1000},
                "uplink": {"bandwidth": "0 MB/s"},
            }
        )
    assert caught.value.faults == [
        "compute.spread must be at least 0 (got -1).",
        "compute.slow must be a number (got true).",
        "compute.jitter must be at most 5 (got 1000).",
        "uplink.bandwidth must be above 0 (got '0 MB/s'). Leave it out if it is no limit.",
    ]
