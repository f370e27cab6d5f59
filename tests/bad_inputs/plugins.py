"""Functions of one's own that do not keep to their contract."""

from bad_inputs.rows import plugin, sets

GIVEN = {
    "an_array": "array([1., 1.])",
    "one_in_an_array": "array([1.])",
    "huge": f"1{'0' * 59}",
    "complex_number": "1j",
    "truth": "np.True_",
    "not_a_number": "np.float32(nan)",
}

ROWS = [
    plugin("network.topology=NUMBER", "topology * must be a function (got int)."),
    plugin("network.topology=raises", "topology * failed (ValueError: boom and a second line)."),
    plugin(
        "network.topology=nothing",
        "topology *: a graph must be a networkx.Graph or a scipy sparse adjacency matrix "
        "(got NoneType).",
    ),
    plugin(
        "network.topology=one_node_more",
        "topology * must give a graph of the 5 devices asked "
        "for (got 6 nodes). Use its first argument as the number of nodes.",
    ),
    plugin(
        "network.topology=directed",
        "topology *: a graph must be undirected, because a link carries models both ways "
        "(got a DiGraph).",
    ),
    plugin(
        "network.topology=in_pieces",
        "topology * must give a connected graph, because an island is connected by "
        "definition (got several pieces).",
    ),
    plugin(
        "network.mixing=nothing",
        "mixing *: W must be a matrix of numbers (got None). Build W with "
        "skerry.network.mixing.metropolis(graph).",
    ),
    plugin(
        "network.mixing=heavy_weights",
        "mixing *: row 0 of W sums to 5, not 1. Build W with "
        "skerry.network.mixing.metropolis(graph).",
    ),
    plugin(
        "network.mixing=weights_off_the_links",
        "mixing *: W[0, 2] is 0.2, but the graph has no such link; weights must be zero"
        " between devices without a link.",
    ),
    plugin(
        "data.dataset=nothing",
        "dataset * must return a Dataset or (x_train, y_train, x_test, y_test) (got NoneType).",
    ),
    plugin("data.dataset=three_arrays", "(x_train, y_train, x_test, y_test) (got tuple)."),
    plugin("data.dataset=no_arrays", "dataset *: y_train must have one dimension (got shape ())."),
    plugin(
        "data.dataset=not_finite",
        "dataset *: x_train must be finite in float32 (got 300 values that are not).",
    ),
    plugin(
        "data.dataset=raises",
        "dataset * failed (ValueError: boom and a second line). Correct the function; skerry "
        "--debug shows where it fails.",
    ),
    plugin("data.dataset=sized", "dataset * needs the option 'size'. Set data.size."),
    plugin("data.inter=nothing", "inter partition * must give 2 arrays of sample indices."),
    plugin(
        "data.inter=one_share", "inter partition * must give 2 arrays of sample indices (got 1)."
    ),
    plugin(
        "data.inter=every_sample_twice",
        "inter partition * must deal every one of its 1437 sample indices exactly once.",
    ),
    plugin("data.intra=raises", "intra partition * failed (ValueError: boom and a second line)."),
    plugin(
        "data.intra=one_sample_lost",
        "intra partition * must deal every one of its 717 sample indices exactly once.",
    ),
    plugin(
        "training.sampling=nothing",
        "sampling * failed (AttributeError: 'NoneType' object has no attribute 'indices').",
    ),
    plugin(
        "training.sampling=Foreign",
        "sampling *: indices(t, step, steps) must give training "
        "indices 0 to 1436 as an int64 array of shape (10, 128), a row per device (got int64 of "
        "shape (10, 128) from 1000000 to 1000000).",
    ),
    plugin("training.sampling=Halves", "(got float64 of shape (10, 128) from 0.5 to 0.5)."),
    plugin("training.sampling=Small", "(got int64 of shape (3, 2) from 0 to 0)."),
    plugin(
        "training.schedule=nothing",
        "schedule * must give the factor on the stepsize, a number "
        "of at least 0 (got None in round 0).",
    ),
    *[
        plugin(f"training.schedule={name}", f"a number of at least 0 (got {got} in round 0).")
        for name, got in GIVEN.items()
    ],
    plugin("training.schedule=negative", "a number of at least 0 (got -1 in round 0)."),
    plugin("training.schedule=text", "a number of at least 0 (got 'slower' in round 0)."),
    plugin("training.schedule=raises", "schedule * failed (ValueError: boom and a second line)."),
    plugin(
        "server.primitive=forgets_to_count",
        "primitive * must return how many devices received the average, 0 to 10 (got None).",
    ),
    plugin(
        "server.primitive=lacks_an_option",
        "primitive * needs the option 'strength'. Set server.strength.",
    ),
    plugin(
        "network.mixing=option_of_another_kind",
        "mixing * cannot have an option 'degree', because network.degree is a field with another "
        "use. Rename the parameter.",
    ),
    plugin(
        "network.topology=default_of_its_own",
        "topology * must not give 'degree' a default, because network.degree has one. Leave out "
        "the parameter's.",
    ),
    plugin("server.primitive=counts_too_many", "received the average, 0 to 10 (got 11)."),
    plugin(
        "server.primitive=too_narrow",
        "primitive * failed (RuntimeError: shape mismatch",
    ),
    plugin(
        "server.optimizer=NUMBER",
        "server optimizer * must have the methods start and deliver (got int).",
    ),
    plugin(
        "server.optimizer=DeliversNothing",
        "server optimizer *: deliver must give a float32 tensor of "
        "the average's shape, [lanes, parameters] (got NoneType).",
    ),
    plugin("server.optimizer=DeliversLess", "[lanes, parameters] (got float32 of shape (1, 3))."),
    plugin(
        "server.optimizer=RemembersNothing",
        "server optimizer *: start must give a dict of tensors of the shape it gets, [lanes, "
        "parameters], or an empty one (got NoneType).",
    ),
    plugin("server.optimizer=RemembersLess", "or an empty one (got v: float32 of shape (1, 2))."),
    sets(
        "function that was given from Python, in a text",
        "server.primitive=given:halfway@0123456789ab",
        "primitive 'given:halfway@0123456789ab' was the function halfway (source 0123456789ab), "
        "given from Python: no text holds it. Define it again and give the function itself",
    ),
]
