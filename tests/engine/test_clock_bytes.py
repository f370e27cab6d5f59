"""The clock and the ledger count the same bytes: joules per byte times bytes are joules."""

import pytest

from skerry.config.presets import with_preset
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import build_world
from skerry.measure.observer import Observer

LINKS = {"uplink": 1, "downlink": 1, "d2d": 2}
"""How often a byte costs: between devices it is sent and received."""
PRIMITIVES = ("s2s", "s2a", "blend", "timed_plugins:my_s2s", "timed_plugins:my_s2a")
SETTINGS = {
    "plain": "",
    "sleep": "availability.awake=0.5",
    "sleep that is reached": "availability.awake=0.5 availability.reach_asleep=true",
    "deadlines": "server.deadline=0.3 server.over_sample=3",
    "deadlines and sleep": "server.deadline=0.3 availability.awake=0.7 server.at_least=2",
    "own method": "method.name=timed_plugins:Doubled",
    "own method that says less": "method.name=timed_plugins:Unsaid",
}
BUILT_IN = {
    "compressed": "server.compression=top_k network.compression=int8",
    "compressed links that fail": "network.compression=top_k network.link_failure=0.4",
    "gradient tracking": "method.name=gradient_tracking",
    "gradient tracking, s2a": "method.name=gradient_tracking method.tracker=s2a",
    "gradient tracking, home": "method.name=gradient_tracking method.tracker=home",
    "tracking asleep": "method.name=gradient_tracking method.tracker=s2a availability.awake=0.6",
    "tracking, late": "method.name=gradient_tracking server.deadline=0.3",
    "late and compressed": "server.compression=int8 server.deadline=0.3",
}
PRESETS = (
    "scaffold",
    "sd_gt",
    "mtgc",
    "fedprox",
    "fedvarp",
    "mifa",
    "carry",
    "gradient_tracking_s2s",
    "fedavg",
)


def clock_for(folder, link):
    """A clock of devices that differ, in which only the bytes of one kind of link cost joules."""
    file = folder / f"{link}.toml"
    text = f"[compute]\nseconds_per_step = 0.2\nspread = 0.8\n[{link}]\njoules_per_byte = 0.5\n"
    file.write_text(text)
    return f"clock.file={file}"


def assert_joules_of_bytes(base, lanes_of, folder):
    lanes = [one for link in LINKS for one in lanes_of(base.with_settings(clock_for(folder, link)))]
    stack = build_stack(build_world(base), lanes)
    observer, rows = Observer(stack), {}
    for moment in simulate(stack):
        rows |= observer.rows(moment)
    for key, experiment in zip(stack.keys, stack.experiments, strict=True):
        link = next(link for link in LINKS if f"{link}.toml" in experiment.clock.file)
        expected = 0.5 * LINKS[link] * rows[key][f"{link}_bytes"]
        assert rows[key]["joules"] == pytest.approx(expected, rel=1e-9), (link, experiment.server)
    return rows


@pytest.mark.parametrize("settings", [*SETTINGS.values(), *BUILT_IN.values()],
                         ids=[*SETTINGS, *BUILT_IN])  # fmt: skip
def test_joules_are_those_of_the_counted_bytes(small, tmp_path, settings):
    """With every primitive, built in or a user's own, whoever sleeps or is late."""
    timed = clock_for(tmp_path, "uplink")
    base = small("server.period=2", timed, *settings.split())
    own = settings in SETTINGS.values()

    def lanes_of(one):
        names = PRIMITIVES if own else PRIMITIVES[:3]
        return [one.with_settings(f"server.primitive={name}") for name in names]

    assert assert_joules_of_bytes(base, lanes_of, tmp_path)


@pytest.mark.parametrize("preset", PRESETS)
def test_methods_count_the_same_bytes(small, tmp_path, preset):
    base = small(clock_for(tmp_path, "uplink"), "server.period=2", "server.sampled=6")
    assert assert_joules_of_bytes(base, lambda one: [with_preset(one, preset)], tmp_path)


def test_a_stack_that_is_run_twice_has_the_same_seconds(small, tmp_path):
    """Messages that a link must catch up on are counted anew."""
    settings = ["network.compression=top_k", "network.link_failure=0.4", "server.period=2"]
    base = small(clock_for(tmp_path, "d2d"), *settings)
    stack = build_stack(build_world(base), [base])
    seconds = []
    for _ in range(2):
        observer = Observer(stack)
        rows = [observer.rows(moment) for moment in simulate(stack)]
        seconds.append([row["joules"] for found in rows for row in found.values()])
    assert seconds[0] == seconds[1]
