"""Modules and data of a run in plain PyTorch: the user's nn.Module with final weights."""

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from skerry.config.experiment import Experiment
from skerry.data.sources.catalog import Dataset, load_dataset
from skerry.engine.world import Materials, problem_of
from skerry.errors import DataError, ModelError
from skerry.files import written
from skerry.models.learner import build_module
from skerry.plugins.registry import GIVEN
from skerry.tasks.choice import choose_task

if TYPE_CHECKING:
    from collections.abc import Mapping


def load_module(
    experiment: Experiment,
    materials: Materials,
    state: "Mapping[str, Tensor]",
    recorded: str | None = None,
) -> nn.Module:
    """A new module of an experiment's model with these weights, on the CPU, for evaluation.
    `recorded` is the fingerprint of the data, where they come from outside the experiment."""
    instead = "Take lane.state_dict(...) and load it into a module of yours."
    if experiment.model.name == GIVEN and materials.model is None:
        raise ModelError(
            f"the model of this run was given from Python, so it is not in the store. {instead}"
        )
    dataset = _dataset(experiment, materials, recorded, instead)
    task = choose_task(experiment.task, dataset, experiment.seed)
    problem = problem_of(experiment, dataset, task)
    module = build_module(experiment.model, problem, materials.model)
    if module is None:
        raise ModelError(f"model '{experiment.model.name}' has no nn.Module. {instead}")
    try:
        missing, unexpected = module.load_state_dict(state, strict=False)
    except RuntimeError as error:  # other shapes
        missing, unexpected = [str(error)], []
    changed = [*(name for name in missing if not name.endswith("_extra_state")), *unexpected]
    if changed:
        raise ModelError(
            f"the model has changed since the run ({changed[0]:.120} does not fit). {instead}"
        )
    return module.eval()


def load_samples(
    experiment: Experiment,
    materials: Materials,
    part: Literal["train", "test"],
    recorded: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Inputs and targets as a model of the experiment gets them."""
    if part not in ("train", "test"):
        raise DataError(f"data must be 'train' or 'test' (got {part!r}).")
    dataset = _dataset(experiment, materials, recorded, "Take the arrays that you gave.")
    some = dataset.common_tests if part == "test" else slice(None)
    x = torch.from_numpy(dataset.inputs(part, experiment.data.scaling, some))
    y = torch.from_numpy((dataset.y_test if part == "test" else dataset.y_train)[some])
    return x, choose_task(experiment.task, dataset, experiment.seed).targets(y, torch.float32)


def _dataset(
    experiment: Experiment, materials: Materials, recorded: str | None, instead: str
) -> Dataset:
    if materials.dataset is not None:
        return materials.dataset
    if experiment.data.dataset == GIVEN:
        raise DataError(
            f"the data of this run were given from Python, so they are not in the store. {instead}"
        )
    dataset = load_dataset(experiment.data, experiment.seed)
    if recorded is not None and dataset.fingerprint() != recorded:
        raise DataError(
            f"the data of {written(experiment.data.path) or experiment.data.dataset} have "
            "changed since the run. Restore the old ones."
        )
    return dataset
