"""How the server's fields change over a run."""

from bad_inputs.plugins import GIVEN
from bad_inputs.rows import plugin, sets

ROWS = [
    *[
        plugin(
            f"server.{field}_schedule={name}",
            f"{field} schedule * must give server.{field}, a number of at least 1 (got {got} in "
            "round 0).",
        )
        for name, got in GIVEN.items()
        for field in ("sampled", "period")
    ],
    sets(
        "schedule without an end",
        "server.sampled_schedule=cosine",
        'server.sampled_schedule = "cosine" goes from server.sampled to an end (got none). Set '
        "server.sampled_end.",
    ),
    sets(
        "unknown schedule",
        "server.period_schedule=doubled",
        "unknown period schedule 'doubled'; did you mean 'double'? Available: adaptive, constant, "
        "cosine, double, inverse_sqrt, step, switch.",
    ),
    sets(
        "adaptive without a target",
        "server.period_schedule=adaptive",
        'server.period_schedule = "adaptive" needs a target (got none). Set server.period_target.',
    ),
    sets(
        "adaptive where nothing can be told",
        "server.primitive=blend server.beta_schedule=adaptive server.selection=weighted",
        'server.beta_schedule = "adaptive" depends on the spread of the sampled models, which is '
        "known for the selections uniform, bernoulli, round_robin, per_component, one_each, and "
        "not for weights by data (got 'weighted' with weights 'equal'). Change one of them.",
    ),
    plugin(
        "server.sampled_schedule=more_than_all",
        "sampled schedule * must give server.sampled, at most the 10 devices there are (got 99 in "
        "round 0).",
    ),
    plugin(
        "server.period_schedule=text_of_a_number",
        "period schedule * must give server.period, a number of at least 1 (got 'slower' in round "
        "0).",
    ),
    plugin(
        "server.sampled_schedule=raises",
        "sampled schedule * failed (ValueError: boom and a second line).",
    ),
]
