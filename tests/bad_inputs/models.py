"""Models by name: unknown ones, and options that they cannot have."""

from bad_inputs.arrays import ON_TOKENS
from bad_inputs.rows import run, sets, settings

ROWS = [
    sets(
        "unknown model",
        "model.name=mpl",
        "unknown model 'mpl'; did you mean 'mlp'? Available: cnn_cifar10, cnn_cifar100, "
        "gru, linear, mlp, quadratic, transformer.",
    ),
    sets(
        "misspelt option",
        "model.name=mlp model.hiden=3",
        "unknown field 'model.hiden'; did you mean 'hidden'? [model] takes: name, weights, "
        "private; model 'mlp' adds: hidden.",
    ),
    sets(
        "option of another model",
        "model.hidden=3",
        "unknown field 'model.hidden'. [model] takes: name, weights, private; model 'linear' adds "
        "none.",
    ),
    sets(
        "a private part that it does not have",
        'model.private=["head.*"]',
        "model.private: 'head.*' is no parameter of the model (it has weight, bias). Give a name, "
        "or a pattern such as 'head.*'.",
    ),
    sets(
        "nothing is shared",
        'model.private=["*"]',
        "model.private must leave a parameter that devices share (got ['*'], which is all of "
        "weight, bias). Shorten the list.",
    ),
    sets(
        "a private part that is no name",
        "model.private=3",
        "model.private must be a list (got 3).",
    ),
    sets(
        "no width",
        "model.name=mlp model.hidden=0",
        "model.hidden must be a width of at least 1 or a list of them (got 0).",
    ),
    sets(
        "too wide",
        "model.name=mlp model.hidden=1_000_000_000_000_000_000",
        "model.hidden must give a network of at most 200,000,000 parameters (got 7.4e+19).",
    ),
    sets(
        "too deep and wide",
        f"model.name=mlp model.hidden={[10**30, 1]}".replace(", ", ","),
        "model.hidden must give a network of at most 200,000,000 parameters (got 6.5e+31).",
    ),
    sets(
        "no number",
        "model.name=mlp model.hidden=1.5",
        "model.hidden must be a width of at least 1 or a list of them (got 1.5).",
    ),
    sets(
        "curvature",
        "model.name=quadratic model.curvature=x",
        "model.curvature must be a number above 0 and model.conditioning one of at least 1, both "
        "at most 1e+30 (got 'x' and 1.0).",
    ),
    sets(
        "small images",
        "model.name=cnn_cifar10",
        "model 'cnn_cifar10' needs square images of at least 16 x 16 (got inputs of shape "
        "(1, 8, 8)).",
    ),
    sets("half a reference", "model.name=mine:", "model 'mine:' must read package.module:name."),
    sets(
        "a called reference",
        "server.primitive=good_plugins:half_a_blend()",
        "'good_plugins:half_a_blend()' must read package.module:name.",
    ),
    sets(
        "no such module",
        "model.name=nope.models:net",
        "model 'nope.models:net' cannot be imported (ModuleNotFoundError: No module named 'nope'). "
        "Check its name and that it is on PYTHONPATH.",
    ),
    sets(
        "no such function",
        "model.name=bad_plugins:frosen",
        "model 'bad_plugins:frosen': module bad_plugins has no 'frosen'; did you mean 'frozen'?",
    ),
    run(
        "module with an error",
        settings("model.name=broken:net"),
        "model 'broken:net' cannot be imported (SyntaxError: invalid syntax (broken.py, line 1)).",
        **{"broken.py": "def net(:"},
    ),
    run(
        "module that needs another",
        settings("model.name=needy:net"),
        "model 'needy:net' cannot be imported (ModuleNotFoundError: No module named "
        "'not_installed'). Correct the module.",
        **{"needy.py": "import not_installed"},
    ),
    sets(
        "a model of tokens for pictures",
        "model.name=gru",
        "model 'gru' reads tokens (got inputs of shape (1, 8, 8) that are real numbers). Use data",
    ),
    sets(
        "heads that do not divide the width",
        f"{ON_TOKENS} model.name=transformer model.width=9 model.heads=2",
        "model.width must be a multiple of model.heads (got 9 and 2).",
    ),
]
