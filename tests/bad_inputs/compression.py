"""Messages that are compressed."""

from bad_inputs.rows import sets

ROWS = [
    sets(
        "unknown compression",
        "network.compression=topk",
        "network.compression: unknown compression 'topk'; did you mean 'top_k'?",
    ),
    sets(
        "a share of nothing",
        "server.compression=top_k server.compression_share=0",
        "server.compression_share must be above 0 (got 0).",
    ),
    sets(
        "a consensus stepsize above 1",
        "network.compression=top_k network.consensus_stepsize=1.5",
        "network.consensus_stepsize must be at most 1 (got 1.5).",
    ),
    sets(
        "a way that there is not",
        "server.compression=int8 server.compressed=sideways",
        "server.compressed",
    ),
    sets(
        "compressed links of a method that needs models",
        "network.compression=top_k method.name=carry",
        "network.compression is not defined for method 'carry': its rule needs models as they are. "
        "Leave network.compression out, or take int8, or set method.name to one of fedprox, "
        "gradient_tracking, sgd.",
    ),
    sets(
        "compressed server of a method that needs models",
        "server.compression=int8 method.name=gradient_tracking",
        "server.compression is not defined for method 'gradient_tracking': its rule needs models "
        "as they are. Leave server.compression out, or set method.name to one of fedprox, sgd.",
    ),
    sets(
        "compressed server with a schedule that goes by the models",
        "server.compression=int8 server.primitive=blend server.beta_schedule=adaptive",
        "server.compression needs schedules that do not depend on the models (got an adaptive one)"
        ": the server never sees them whole. Change one of them.",
    ),
]
