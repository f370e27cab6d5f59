"""Fields with values that they cannot have, alone or beside others."""

from bad_inputs.rows import sets, toml

ROWS = [
    toml("text for a number", 'rounds = "many"', 'rounds must be a whole number (got "many").'),
    toml("part of a round", "rounds = 2.5", "rounds must be a whole number (got 2.5)."),
    toml("true for a number", "rounds = true", "rounds must be a whole number (got true)."),
    toml("number for text", "name = 3", "name must be text in quotes (got 3)."),
    toml(
        "date for a number",
        "rounds = 2024-01-01",
        'rounds must be a whole number (got "2024-01-01").',
    ),
    toml("no rounds", "rounds = 0", "rounds must be at least 1 (got 0)."),
    toml("negative seed", "seed = -1", "seed must be at least 0 (got -1)."),
    toml(
        "nan", "[training]\nstepsize = nan", "training.stepsize must be a finite number (got NaN)."
    ),
    toml(
        "beyond all numbers",
        "[training]\nstepsize = 1e400",
        "training.stepsize must be a finite number (got Infinity).",
    ),
    toml("zero", "[training]\nstepsize = 0", "training.stepsize must be above 0 (got 0)."),
    toml("above 1", "[server]\nbeta = 1.5", "server.beta must be at most 1 (got 1.5)."),
    toml("not below 1", "[server]\nmomentum = 1", "server.momentum must be below 1 (got 1)."),
    toml(
        "maybe",
        '[network]\ndynamic = "maybe"',
        'network.dynamic must be true or false (got "maybe").',
    ),
    toml(
        "one of two",
        '[data]\nscaling = "none"',
        "data.scaling must be one of 'standard', 'unit' or 'raw' (got \"none\").",
    ),
    toml("section as a value", "network = 3", "network must be a section (got 3)."),
    toml(
        "section twice",
        "[[network]]\ndevices = 3",
        'network must be a section (got [{"devices": 3}]).',
    ),
    toml("value as a section", "[rounds]\na = 3", 'rounds must be a whole number (got {"a": 3}).'),
    toml(
        "list item",
        "[network]\ncomponents = [50, 0]",
        "network.components must be a whole number of at least 1, or a list of such sizes "
        "(got [50, 0]).",
    ),
    toml(
        "empty list", "[evaluate]\nmeasures = []", "evaluate.measures must not be empty (got [])."
    ),
    toml(
        "more sampled than there are",
        "[server]\nsampled = 120",
        "server.sampled must be between 1 and network.devices (got 120 of 100 devices). Lower "
        "server.sampled or raise network.devices.",
    ),
    toml(
        "sizes do not add up",
        "[network]\ncomponents = [50, 40]",
        "network.components must add up to network.devices (got 90 of 100 devices). Change "
        "the sizes or network.devices.",
    ),
    toml(
        "more components than devices",
        "[network]\ncomponents = 1_000_000_000_000",
        "network.components must be at most network.devices (got 1000000000000 islands "
        "for 100 devices).",
    ),
    toml(
        "degree too large",
        '[network]\ntopology = "watts_strogatz"\ndegree = 50',
        "network.degree must be below the size of every island (got 50 with an island of 50).",
    ),
    toml(
        "degree odd",
        '[network]\ntopology = "regular"\ncomponents = 4\ndegree = 3',
        "network.degree times an island's size must be even for a regular graph (got 3 x 25).",
    ),
    toml(
        "never connected",
        '[network]\ntopology = "erdos_renyi"\nedge_prob = 0.001',
        "an island must be connected, but 200 draws of erdos_renyi with network.edge_prob "
        "= 0.001 on 50 devices were not.",
    ),
    toml(
        "npz without a path",
        '[data]\ndataset = "npz"',
        'data.path must name a .npz file when data.dataset = "npz".',
    ),
    sets(
        "name of a primitive",
        "server.name=s2a",
        "server.name must not be that of a primitive (got 's2a'): tables would confuse the two. "
        "Choose another name.",
    ),
    sets(
        "weight decay below 0",
        "training.weight_decay=-1",
        "training.weight_decay must be at least 0 (got -1).",
    ),
    sets(
        "momentum of 1",
        "training.optimizer=momentum training.momentum=1",
        "training.momentum must be below 1 (got 1).",
    ),
    sets(
        "built-in measure as one of ones own",
        "evaluate.own=own_accuracy",
        "evaluate.own takes measures of your own, as package.module:function (got "
        "'own_accuracy'). Built-in ones go into evaluate.measures.",
    ),
    sets(
        "stepsize of the server below 0",
        "server.optimizer=fedadam server.learning_rate=-0.1",
        "server.learning_rate must be above 0 (got -0.1).",
    ),
]
