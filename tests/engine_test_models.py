"""Models that tests name as a user would: engine_test_models:tiny_cnn."""

from torch import nn


def tiny_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Dropout(0.5),
        nn.Linear(3 * 36, 10),
    )  # fmt: skip


def batch_norm(problem):
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, problem.classes))


def wrong_output(problem):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, problem.classes + 1))


def not_a_model(problem):
    return 3


def explodes(problem):
    raise ValueError("boom")
