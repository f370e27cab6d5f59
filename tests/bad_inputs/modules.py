"""Modules of one's own that do not fit the task, the data or the engine."""

from bad_inputs.arrays import ON_TOKENS, TEXT, Y, npz
from bad_inputs.rows import plugin, sets

ROWS = [
    plugin("model.name=NUMBER", "model * must be a function (got int)."),
    plugin(
        "model.name=nothing",
        "model * must give an nn.Module or a learner (got NoneType). Return the module from "
        "the factory.",
    ),
    plugin(
        "model.name=raises",
        "model * failed (ValueError: boom and a second line). Correct the function; skerry "
        "--debug shows where it fails.",
    ),
    plugin("model.name=wide", "model * needs the option 'width'. Set model.width."),
    plugin(
        "model.name=batch_norm",
        "layer '1' (BatchNorm1d) keeps batch statistics, which devices "
        "cannot average or mix as parameters. Use torch.nn.GroupNorm instead.",
    ),
    plugin(
        "model.name=eleven_scores",
        "the model must give one score per class, shape (2, 10) for "
        "two samples (got (2, 11)). Change its last layer.",
    ),
    plugin(
        "model.name=GivesTuple",
        "the model must give one score per class, shape (2, 10) for two samples (got tuple).",
    ),
    plugin(
        "model.name=wrong_input",
        "the model fails on inputs of shape (1, 8, 8) (RuntimeError: mat1 and mat2 shapes",
    ),
    plugin("model.name=frozen", "the model has no trainable parameters. Leave requires_grad on."),
    plugin(
        "model.name=FunctionalDropout",
        "the model draws random numbers of its own while it trains, as functional dropout",
    ),
    plugin(
        "model.name=FewerWhenTraining",
        "the model must give one score per class, shape (2, 10) for two samples (got (2, 3)).",
    ),
    sets(
        "a buffer that changes",
        "model.name=task_plugins:counts",
        "the model changes its buffer 'calls' while it trains, which devices cannot average or mix "
        "as parameters. Keep such numbers outside of the module.",
    ),
    sets(
        "a recurrent layer with dropout",
        f"{ON_TOKENS} model.name=task_plugins:gru_with_dropout",
        "the model draws random numbers of its own while it trains: the dropout inside 'recur' "
        "(LSTM) does not follow the seed. Switch it off once the model is built, "
        "model.recur.dropout = 0.0; nn.Dropout layers beside it stay, and follow the seed.",
    ),
    sets(
        "torch's transformer with its usual dropout",
        f"{ON_TOKENS} model.name=task_plugins:encoder_with_dropout",
        "the model draws random numbers of its own while it trains: the dropout inside "
        "'layer.self_attn' (MultiheadAttention) does not follow the seed. Switch it off once the "
        "model is built, model.layer.self_attn.dropout = 0.0; nn.Dropout layers beside it stay",
    ),
    sets(
        "a transformer with too few places",
        f"{ON_TOKENS} model.name=task_plugins:few_places",
        "embedding 'places' has 4 rows, 0 to 3, but is given 0 to 15 on inputs of shape (16,). "
        "Make it nn.Embedding(16, ...).",
    ),
    npz(
        "tokens that were standardised",
        {"x_train": TEXT, "y_train": Y, "x_test": TEXT[:20], "y_test": Y[:20]},
        "embedding '0' takes whole numbers (got torch.float32). Give the data whole inputs and set "
        'data.scaling = "raw", which leaves them whole.',
        also="model.name=task_plugins:embeds_labels",
    ),
    npz(
        "tokens that were standardised and rounded",
        {"x_train": TEXT, "y_train": Y, "x_test": TEXT[:20], "y_test": Y[:20]},
        "embedding 'look_up' has rows 0 to 6, but is given -1 to 1: the model gets scaled inputs"
        ", which are no whole numbers. Give the data whole inputs and set data.scaling = "
        '"raw", which leaves them whole.',
        also="model.name=task_plugins:rounds_labels",
    ),
    sets(
        "a model that knows too few tokens",
        f"{ON_TOKENS} model.name=task_plugins:few_tokens",
        "embedding 'Embedding' has 11 rows, 0 to 10, but is given 0 to 11 on inputs of shape "
        "(16,). Make it nn.Embedding(problem.tokens, ...).",
    ),
]
