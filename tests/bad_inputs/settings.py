"""What `--set` cannot set."""

from bad_inputs.rows import run, sets, settings

ROWS = [
    run(
        "setting without a value",
        ["--set", "rounds"],
        "a setting reads section.field=value (got 'rounds').",
    ),
    run(
        "setting without a field",
        ["--set", "=3"],
        "a setting reads section.field=value (got '=3'). Example: server.period=10",
    ),
    run(
        "setting with a dot",
        ["--set", ".rounds=3"],
        "a setting reads section.field=value (got '.rounds=3').",
    ),
    run(
        "setting too deep",
        ["--set", "a.b.c=3"],
        "a setting reads section.field=value (got 'a.b.c=3').",
    ),
    run(
        "setting inside a value",
        ["--set", "rounds.x=3"],
        "cannot set rounds.x: rounds is 2, not a section.",
    ),
    sets(
        "setting of a section and then inside it",
        "server=3 server.period=4",
        "cannot set server.period: server is 3, not a section.",
        "server must be a section (got 3).",
    ),
    sets(
        "setting of 5,000 digits",
        f"rounds={'9' * 5000}",
        "rounds must be a whole number of fewer digits (got ",
    ),
    sets(
        "setting of 6,000 digits in base 16",
        f"rounds=0x{'f' * 5000}",
        "rounds must not have more than 100 digits. Shorten the number.",
    ),
    sets(
        "setting of thousands of brackets",
        f"rounds={'[' * 2000}{']' * 2000}",
        'rounds must be a whole number (got "[[[[',
    ),
    sets(
        "setting of dozens of brackets",
        f"rounds={'[' * 50}{']' * 50}",
        "rounds must have at most 20 levels. Write it with fewer.",
    ),
    sets("setting out of range", "rounds=-1", "rounds must be at least 1 (got -1)."),
    run(
        "setting of two lines",
        ["--set", "rounds=3\nseed=4"],
        'rounds must be a whole number (got "3\\nseed=4").',
    ),
    sets("setting a bare word", "rounds=abc", 'rounds must be a whole number (got "abc").'),
    run(
        "several settings",
        settings("seed=-1", "server.sampled=50", "rounds"),
        "a setting reads section.field=value (got 'rounds'). Example: server.period=10",
        "seed must be at least 0 (got -1).",
        "server.sampled must be between 1 and network.devices (got 50 of 10 devices).",
    ),
]
