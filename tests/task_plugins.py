"""Models, losses and scores that tests name as a user would: task_plugins:quartic."""

import torch
from torch import nn


def quartic(outputs, targets):
    return (outputs - targets).pow(4).mean()


def smoothed(outputs, targets, *, smoothing=0.1):
    return nn.functional.cross_entropy(outputs, targets, label_smoothing=smoothing)


def last_token(outputs, targets):
    """Only the last place counts."""
    return nn.functional.cross_entropy(outputs[:, -1], targets[:, -1])


def within_half(outputs, targets):
    return 100 * ((outputs - targets).abs() < 0.5).to(outputs.dtype).mean()


def vector(outputs, targets):
    return (outputs - targets).square()


def raises(outputs, targets):
    raise ValueError("no loss today")


def constant(outputs, targets):
    return torch.tensor(1.0)


def looks_at_values(outputs, targets):
    return outputs.mean() if outputs.mean().item() > 0 else -outputs.mean()


def tanh_net(problem):
    return nn.Sequential(
        nn.Linear(problem.input_shape[0], 4), nn.Tanh(), nn.Linear(4, problem.outputs)
    )


class Window(nn.Module):
    """Scores from a token and the one before it."""

    def __init__(self, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 3)
        self.dense = nn.Linear(6, vocabulary)

    def forward(self, x):
        embedded = self.embed(x)
        before = nn.functional.pad(embedded, (0, 0, 1, 0))[:, :-1]
        return self.dense(torch.cat([embedded, before], dim=-1))


def window(problem):
    return Window(problem.outputs)


class Lstm(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 3)
        self.recur = nn.LSTM(3, 4, batch_first=True)
        self.dense = nn.Linear(4, vocabulary)

    def forward(self, x):
        return self.dense(self.recur(self.embed(x))[0])


def lstm(problem):
    return Lstm(problem.outputs)


class Encoder(nn.Module):
    """torch's own transformer."""

    def __init__(self, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 4)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
        self.dense = nn.Linear(4, vocabulary)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=torch.float64)
        return self.dense(self.layer(self.embed(x), mask.to(self.dense.weight)))


def encoder(problem):
    return Encoder(problem.outputs)


class EncoderWithDropout(Encoder):
    """As torch makes it unless told otherwise."""

    def __init__(self, vocabulary):
        super().__init__(vocabulary)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)


def encoder_with_dropout(problem):
    return EncoderWithDropout(problem.outputs)


def encoder_as_advised(problem):
    model = EncoderWithDropout(problem.outputs)
    model.layer.self_attn.dropout = 0.0
    return model


class Placed(nn.Module):
    """A transformer's first lines, with an embedding of places that may be too short."""

    def __init__(self, tokens, places, outputs):
        super().__init__()
        self.embed, self.places = nn.Embedding(tokens, 3), nn.Embedding(places, 3)
        self.head = nn.Linear(3, outputs)

    def forward(self, x):
        return self.head(self.embed(x) + self.places(torch.arange(x.shape[1])))


def few_places(problem):
    return Placed(problem.tokens, 4, problem.outputs)


def embeds_labels(problem, *, tokens=10):
    """Looks a sequence's tokens up, and says what kind of sequence it is."""
    return nn.Sequential(
        nn.Embedding(tokens, 4),
        nn.Flatten(),
        nn.Linear(4 * problem.input_shape[0], problem.outputs),
    )


class RoundsBack(nn.Module):
    """Makes whole numbers of whatever it is given."""

    def __init__(self, problem):
        super().__init__()
        self.inside = embeds_labels(problem)

    def forward(self, x):
        return self.inside(x.long().clamp(0, 9))


class RoundsLabels(nn.Module):
    """Rounds inputs to whole numbers, without a look at their range."""

    def __init__(self, problem):
        super().__init__()
        self.look_up, self.out = nn.Embedding(7, 4), nn.Linear(4, problem.outputs)

    def forward(self, x):
        return self.out(self.look_up(x.long()).mean(dim=1))


def rounds_labels(problem):
    return RoundsLabels(problem)


def rounds_back(problem):
    return RoundsBack(problem)


class SkipsSilence(Lstm):
    """Looks at values: it cannot be batched."""

    def forward(self, x):
        scores = super().forward(x)
        return scores if int((x == 0).sum()) < 3 else 2 * scores


def skips_silence(problem):
    return SkipsSilence(problem.outputs)


class Branches(nn.Sequential):
    """Takes one of two ways, as the values say."""

    def forward(self, x):
        outputs = super().forward(x)
        return outputs if outputs.sum() > 0 else 0.5 * outputs


def branches(problem):
    inputs = torch.Size(problem.input_shape).numel()
    return Branches(nn.Flatten(), nn.Linear(inputs, 3), nn.Tanh(), nn.Linear(3, problem.outputs))


def branches_with_dropout(problem):
    inputs = torch.Size(problem.input_shape).numel()
    return Branches(nn.Flatten(), nn.Dropout(0.3), nn.Linear(inputs, problem.outputs))


class LowRank(nn.Module):
    """W + A B, of which only A and B learn."""

    def __init__(self, outputs, inputs, rank=2):
        super().__init__()
        self.A = nn.Parameter(torch.zeros(outputs, rank))
        self.B = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)

    def forward(self, W):
        return W + self.A @ self.B


def lora(problem, *, rank=2):
    """Frozen layers, each with a low-rank addition that learns."""
    inputs = torch.Size(problem.input_shape).numel()
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, problem.outputs)
    ).requires_grad_(False)
    for layer in (model[1], model[3]):
        addition = LowRank(*layer.weight.shape, rank)
        nn.utils.parametrize.register_parametrization(layer, "weight", addition)
    return model


def frozen_backbone(problem):
    model = backbone(problem)
    model[:2].requires_grad_(False)
    return model


def backbone(problem):
    inputs = torch.Size(problem.input_shape).numel()
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, problem.outputs)
    )


class Counts(nn.Linear):
    """Changes a buffer of its own."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x.flatten(1))


def counts(problem):
    return Counts(torch.Size(problem.input_shape).numel(), problem.outputs)


def few_tokens(problem):
    """Knows fewer tokens than there are."""
    return nn.Embedding(problem.outputs - 1, problem.outputs)


def gru_with_dropout(problem):
    model = Lstm(problem.outputs)
    model.recur = nn.LSTM(3, 4, 2, batch_first=True, dropout=0.5)
    return model


def convolution(problem):
    """A chain whose images lie channels last."""
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 16, problem.outputs)
    )
