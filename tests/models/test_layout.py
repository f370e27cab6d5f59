"""The layout of flat parameter vectors."""

import pytest
import torch
from torch import nn

from skerry.models.layout import Padding, named_tensors, parameter_mask, without_padding
from skerry.models.learner import Problem
from skerry.models.linear import LinearLearner
from skerry.models.module import ModuleLearner
from skerry.tasks.built_in import CLASSIFICATION


def learners():
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    return [
        LinearLearner(6, 3, CLASSIFICATION),
        ModuleLearner(module, Problem((6,), 3, seed=0)),
    ]


def flat_vector(layout, d, tensors):
    """The flat vector of parameters given by name; padding is zero."""
    vector_d = torch.zeros(d)
    for parameter in layout:
        parameter.of(vector_d).copy_(tensors[parameter.name])
    return vector_d


@pytest.mark.parametrize("learner", learners(), ids=lambda one: type(one).__name__)
def test_every_number_belongs_to_one_parameter_or_is_padding(learner):
    """Removing the padding keeps every parameter, under its name and with its values."""
    layout, d = learner.layout(), learner.d
    mask = parameter_mask(layout, d)
    assert mask.sum() == learner.parameters < d
    X = torch.arange(2.0 * d).view(2, d) * mask
    for before, after in zip(layout, without_padding(layout, d), strict=True):
        assert torch.equal(before.of(X), after.of(X[:, mask]))
    tensors = named_tensors(layout, X[1])
    assert torch.equal(flat_vector(layout, d, tensors), X[1])


def test_the_linear_layout_is_that_of_a_torch_layer():
    """`weight` and `bias` of the linear model score as nn.Linear does."""
    learner, layer = LinearLearner(6, 3, CLASSIFICATION), nn.Linear(6, 3)
    vector = flat_vector(learner.layout(), learner.d, dict(layer.named_parameters()))
    x = torch.randn(4, 6)
    scores = learner.scores(vector[None].detach(), learner.prepare(x))[0]
    torch.testing.assert_close(scores, layer(x))


def test_padding_is_removed_and_added_again_as_zeros():
    """What is changed without padding is written back, and the padding stays zero."""
    padding = Padding(torch.tensor([True, True, False, True, False]))
    A = torch.tensor([[1.0, 2, 0, 3, 0], [4, 5, 0, 6, 0]])
    compact = padding.remove(A)
    assert compact.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert torch.equal(padding.add(compact), A)
    with padding.added(compact) as (padded,):
        padded += 1
    assert compact.tolist() == [[2, 3, 4], [5, 6, 7]]
    padding.write(compact, A)
    assert A[0].tolist() == [2, 3, 0, 4, 0]
    assert padding.add(torch.ones(2)).tolist() == [1, 1]
    assert padding.add("no array") == "no array"
