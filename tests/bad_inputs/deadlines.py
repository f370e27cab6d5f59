"""Clocks of an experiment, and deadlines."""

from bad_inputs.rows import SMALL, Row, sets, settings

GOOD = "[compute]\nseconds_per_step = 0.1\n"
SET_ONE = "Set clock.file to a clock file, or to an example: wifi_home."


def clocked(id: str, given: str, *told: str, clock: str | bytes = GOOD) -> Row:
    """A run with the clock c.toml."""
    arguments = settings(*SMALL, "clock.file=c.toml", *given.split())
    return Row(id, ("run", *arguments), told, {"c.toml": clock})


ROWS = [
    sets(
        "deadline without a clock",
        "server.deadline=3",
        f"server.deadline needs a clock, which says when messages arrive (got none). {SET_ONE}",
    ),
    sets(
        "over_sample without a clock",
        "server.over_sample=3",
        f"server.over_sample needs a clock, which says when messages arrive (got none). {SET_ONE}",
    ),
    sets(
        "seconds without a clock",
        'evaluate.measures=["average","seconds"]',
        f"evaluate.measures names seconds, which needs a clock (got none). {SET_ONE}",
    ),
    sets(
        "stop by seconds without a clock",
        "stop=seconds>=3",
        "stop names seconds, which is not measured.",
    ),
    clocked("negative deadline", "server.deadline=-1", "server.deadline must be above 0 (got -1)."),
    clocked("deadline of zero", "server.deadline=0", "server.deadline must be above 0 (got 0)."),
    clocked(
        "deadline in words", "server.deadline=soon", 'server.deadline must be a number (got "soon")'
    ),
    clocked(
        "nobody at least",
        "server.deadline=1 server.at_least=0",
        "server.at_least must be at least 1 (got 0).",
    ),
    clocked(
        "at_least above K",
        "server.deadline=1 server.at_least=4",
        "server.at_least must be at most the number of sampled devices (got 4 of 3). Lower "
        "server.at_least.",
    ),
    clocked(
        "at_least without a deadline",
        "server.at_least=2",
        "server.at_least says how many must be in time for a deadline (got 2 without one). Set "
        "server.deadline.",
    ),
    clocked(
        "over_sample beyond n",
        "server.over_sample=8",
        "server.sampled + server.over_sample must be at most the number of devices (got 3 + 8 of "
        "10 devices). Lower server.over_sample.",
    ),
    clocked(
        "fewer than K called",
        "server.over_sample=-1",
        "server.over_sample must be at least 0 (got -1).",
    ),
    clocked(
        "over_sample of a selection that counts",
        "server.over_sample=1 server.selection=bernoulli",
        'server.over_sample takes the first K to arrive, but server.selection = "bernoulli" '
        'decides by itself how many count. Use "uniform", "per_component" or "round_robin".',
    ),
    clocked(
        "deadline with importance",
        "server.deadline=1 server.selection=importance",
        'server.deadline does not go with server.selection = "importance", whose weights are right '
        "for the whole sample only. Change one of them.",
    ),
    clocked(
        "deadline with an adaptive schedule",
        "server.deadline=1 server.period_schedule=adaptive server.period_target=1",
        "server.deadline does not go with adaptive schedules: they estimate from a random sample, "
        "and late devices are left out of it. Change one of them.",
    ),
    sets("unknown clock", "clock.file=wifi_hom", "no clock 'wifi_hom'; did you mean 'wifi_home'?"),
    sets(
        "no clock file", "clock.file=gone.toml", "no clock file gone.toml. Make one: skerry clock"
    ),
    clocked("damaged clock", "", "c.toml is not valid TOML:", clock="[compute\n"),
    clocked(
        "clock that is no text",
        "",
        "c.toml is not UTF-8 text (at byte 0). Save it as UTF-8.",
        clock=b"\xff\xfe",
    ),
    clocked(
        "clock of other fields",
        "",
        "c.toml: unknown field 'compute.watt'; did you mean 'watts'?",
        clock="[compute]\nwatt = 3\n",
    ),
    clocked(
        "clock with a device that is none",
        "",
        "compute.slow names the device 'porch', which is not in the fleet",
        clock="[compute]\nslow = {porch = 2.0}\n",
    ),
]
