"""What can be run and is probably not meant: told once, in a line, and the runs go on."""

import warnings
from functools import cache

from skerry.config.experiment import Experiment
from skerry.data.dataset import Dataset
from skerry.errors import SkerryWarning
from skerry.plugins import registry


def tell_of_scaled_tokens(
    experiment: Experiment, dataset: Dataset, has_own_model: bool = False
) -> None:
    """Whole inputs may be tokens or amounts. Built-in models say which they take; a user's model
    that turns them back into whole numbers would learn next to nothing, and nobody would know."""
    data = experiment.data
    own = has_own_model or not registry.is_builtin("model", experiment.model.name)
    could_be_tokens = dataset.tokens("raw") is not None and dataset.tokens(data.scaling) is None
    if own and could_be_tokens and "scaling" not in data.model_fields_set:
        _tell_once(
            f"the inputs of {dataset.name} are whole numbers, and your model sees them "
            'standardised. If they are tokens, set data.scaling = "raw", which leaves them whole; '
            'if they are amounts, set data.scaling = "standard", and this is not told again.'
        )


def tell_of_an_idle_primitive(name: str) -> None:
    _tell_once(
        f"primitive '{name}' leaves all models as they are: the server does nothing. Write into "
        "X_nld itself, as in X_nld[sampled_k] = delivered_ld, not into a copy."
    )


@cache
def _tell_once(line: str) -> None:
    """Worlds are built for every seed, and rehearsed where they are planned and where they run."""
    warnings.warn(line, SkerryWarning, stacklevel=3)
