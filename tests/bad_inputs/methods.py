"""Methods and presets, and what they ask of other fields."""

from bad_inputs.rows import run, sets

ROWS = [
    run(
        "unknown preset",
        ["--compare", "s2s,tthf"],
        "unknown primitive 'tthf'; did you mean 'tt_hf'? Available: blend, none, s2a, s2s. "
        "Presets: fedavg, fedavg_data, local_sgd, dsgd, d_psgd, gossip_pga, hier_favg, tt_hf, "
        "hl_sgd, modest, carry, fedprox, fedvarp, gradient_tracking, gradient_tracking_s2s, "
        "mifa, mtgc, scaffold, sd_gt.",
    ),
    sets(
        "unknown method",
        "method.name=gradient_traking",
        "method.name: unknown method 'gradient_traking'; did you mean 'gradient_tracking'?",
    ),
    sets(
        "method that asks for other links and another primitive",
        "method.name=scaffold",
        "method 'scaffold' needs network.gossip_steps = 0 (got 1): its devices know the server "
        "alone. Set network.gossip_steps=0.",
        'method \'scaffold\' needs server.primitive = "s2a" (got "s2s"). Set '
        'server.primitive="s2a".',
    ),
    sets(
        "method for one local step",
        "method.name=gradient_tracking training.local_steps=2",
        "method 'gradient_tracking' needs training.local_steps = 1 (got 2): its rule is written "
        "for one gradient between two mixings. Set training.local_steps=1.",
    ),
    sets(
        "method that counts on steps of devices that sleep",
        "method.name=scaffold fleet.awake=0.5 network.gossip_steps=0 server.primitive=s2a",
        "method 'scaffold' is not defined for devices that sleep: it counts on their steps. Leave "
        "[availability] out, or take gradient_tracking, carry or fedprox.",
    ),
    sets(
        "method that S2A would break",
        "method.name=carry server.primitive=s2a",
        'method \'carry\' needs server.primitive = "s2s" or "none" (got "s2a"): S2A would move '
        'the average. Set server.primitive="s2s".',
    ),
    sets(
        "negative mu", "method.name=fedprox method.mu=-1", "method.mu must be at least 0 (got -1)."
    ),
    sets(
        "option of no method",
        "method.name=carry method.strength=1",
        "unknown field 'method.strength'",
    ),
    run(
        "primitive or preset that nobody knows",
        ["--compare", "s2s,scafold"],
        "unknown primitive 'scafold'; did you mean 'scaffold'?",
    ),
    sets(
        "method and local optimizer at once",
        "method.name=carry training.optimizer=adam",
        'method \'carry\' needs training.optimizer = "sgd" (got "adam")',
    ),
]
