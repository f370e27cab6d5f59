"""What `skerry theory bounds` cannot answer."""

from bad_inputs.rows import Row


def bounds(id: str, arguments: str, *told: str) -> Row:
    return Row(id, ("theory", "bounds", *arguments.split()), told)


ROWS = [
    bounds(
        "bounds of more components than a number can count",
        f"--components 1{'0' * 400}",
        "components is larger than any number here. Lower it.",
    ),
    bounds(
        "bounds of a misspelt rule",
        "--selection per_componet",
        "the theory has no law of counts for selection 'per_componet'; did you mean "
        "'per_component'? It knows uniform, per_component, one_each, bernoulli.",
    ),
    bounds(
        "bounds of a rule without a law",
        "--selection uniform,round_robin",
        "the theory has no law of counts for selection 'round_robin'. It knows uniform,",
    ),
    bounds(
        "bounds of no rule",
        "--selection ,",
        "--selection must name something (got ','). Give uniform or per_component.",
    ),
    bounds(
        "bounds of no primitive",
        "--primitive ,",
        "--primitive must name something (got ','). Give s2s,s2a.",
    ),
    bounds(
        "a rule that the theorems do not know",
        "--selection one_each --mode order",
        "the paper's theorems assume that devices are sampled uniformly and weigh alike (got "
        "selection 'one_each', weights 'equal'). Ask for certified bounds: they follow the rule.",
    ),
    bounds(
        "one_each that does not come out even",
        "--selection one_each --sampled 7",
        "sampled must be a multiple of the number of islands for one_each (got 7 for 2).",
    ),
    bounds(
        "one_each with fewer devices than islands",
        "--selection one_each --sampled 2 --components 4",
        "sampled must be a multiple of the number of islands for one_each (got 2 for 4).",
    ),
    bounds(
        "more sampled than there are, by islands",
        "--selection per_component --sampled 101",
        "sampled must be between 1 and devices (got 101 of 100 devices).",
    ),
    bounds(
        "unknown weights of bounds",
        "--weights by_size",
        "unknown kind of weights 'by_size'. Available: equal, stratified.",
    ),
    bounds(
        "stratified weights of an island that is missed",
        "--weights stratified --components 30+70 --sampled 2",
        "stratified weights on islands of several sizes have bounds only where every island is in "
        "every sample",
    ),
    bounds(
        "counts too many to write out",
        "--selection per_component --devices 210 --components "
        + "+".join(str(size) for size in range(1, 21)),
        "20 islands have too many possible counts to write out. Ask about fewer islands, or about "
        "one_each, whose counts are fixed.",
    ),
]
