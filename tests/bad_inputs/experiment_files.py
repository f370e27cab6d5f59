"""Experiment files that cannot be read, and those with faults of all sorts."""

from bad_inputs.rows import Row, toml

ROWS = [
    toml(
        "not toml",
        "rounds = = 3",
        "mine.toml is not valid TOML: Invalid value (at line 1, column 10).",
    ),
    toml(
        "unclosed section",
        "[network\n",
        "mine.toml is not valid TOML: Expected ']' at the end of a table declaration (at "
        "line 1, column 9).",
    ),
    toml(
        "field twice",
        "rounds = 1\nrounds = 2",
        "mine.toml is not valid TOML: Cannot overwrite a value (at end of document).",
    ),
    toml(
        "not utf-8", b'name = "\xff"', "mine.toml is not UTF-8 text (at byte 8). Save it as UTF-8."
    ),
    toml("utf-16", "rounds = 3".encode("utf-16"), "mine.toml is not UTF-8 text (at byte 0)."),
    Row(
        "no such file",
        ("run", "a/b.toml"),
        ("no file a/b.toml. Make one: mkdir -p a && skerry new > a/b.toml",),
    ),
    Row(
        "a folder",
        ("run", "d"),
        ("cannot read d (Is a directory). Give an experiment file (TOML).",),
        {"d/x": ""},
    ),
    toml(
        "field with its section in quotes",
        '"server.period" = 10\nrounds = 0',
        "rounds must be at least 1 (got 0).",
        "unknown field '\"server.period\"': in quotes a dot is part of the name. Write period = "
        "... below [server].",
    ),
    toml(
        "unknown field in quotes",
        '"a.b" = 10',
        "unknown field 'a.b'. An experiment takes: name, seed, rounds,",
    ),
    toml(
        "number of 5,000 digits",
        f"seed = 3\nrounds = {'9' * 5000}",
        "rounds must not have more than 100 digits (in mine.toml). Shorten the number.",
    ),
    toml(
        "number of 6,000 digits in base 16",
        f"[server]\nperiod = 0x{'f' * 5000}",
        "server.period must not have more than 100 digits. Shorten the number.",
    ),
    toml(
        "thousands of brackets",
        f"rounds = {'[' * 2000}{']' * 2000}",
        "rounds must have at most 20 levels (in mine.toml). Write it with fewer.",
    ),
    toml(
        "dozens of brackets",
        f"[network]\ncomponents = {'[' * 50}{']' * 50}",
        "network.components must have at most 20 levels. Write it with fewer.",
    ),
    toml(
        "thousands of dots",
        f"{'a.' * 3000}b = 3",
        "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a must have at most 20 levels.",
    ),
    toml(
        "faults of all sorts",
        "rounds = 0\nfoo = 1\n"
        '[network]\ntopology = "rign"\ndevices = 10\n'
        "[server]\nsampled = 20\n"
        '[model]\nname = "mlp"\nhiden = 3',
        "rounds must be at least 1 (got 0).",
        "unknown topology 'rign'; did you mean 'ring'?",
        "unknown field 'foo'. An experiment takes: name, seed, rounds, stop, network, data, task, "
        "model, training, server, availability, method, evaluate, clock.",
        "unknown field 'model.hiden'; did you mean 'hidden'? [model] takes: name, weights, "
        "private; model 'mlp' adds: hidden.",
        "server.sampled must be between 1 and network.devices (got 20 of 10 devices).",
    ),
    toml(
        "no second fault where the first is the cause",
        '[network]\ndevices = 0\n[data]\ndataset = "syntetic"\nsamples = 100\n',
        "network.devices must be at least 1 (got 0).",
        "unknown dataset 'syntetic'; did you mean 'synthetic'?",
    ),
]
