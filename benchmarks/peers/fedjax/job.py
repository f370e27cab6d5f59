"""FedJAX: `fedjax.algorithms.fed_avg` with its default jit backend and a Haiku model."""

import fedjax
import haiku as hk
import jax
import numpy as np
from peer_job import WARM_UP, Job, Model, Turn, device_data, initial_model


def linear(batch) -> jax.Array:
    return hk.Linear(10, name="layer_1")(hk.Flatten()(batch["x"]))


def cnn(batch) -> jax.Array:
    """Channels last, which JAX prefers."""
    return hk.Sequential(
        [
            hk.Conv2D(32, 5, padding="VALID", name="layer_0"),
            jax.nn.relu,
            hk.MaxPool(2, 2, "VALID"),
            hk.Conv2D(64, 5, padding="VALID", name="layer_3"),
            jax.nn.relu,
            hk.MaxPool(2, 2, "VALID"),
            hk.Flatten(),
            hk.Linear(2048, name="layer_7"),
            jax.nn.relu,
            hk.Linear(10, name="layer_9"),
        ]
    )(batch["x"])


NETWORKS = {"linear": linear, "cnn": cnn}
FLATTENED = "layer_7", (64, 5, 5)
"""The layer behind the flattening, and what PyTorch flattens there: channels first."""


def to_haiku(model: Model) -> dict:
    """PyTorch's names and layouts to Haiku's: inputs come before outputs, channels last."""
    layers: dict = {}
    for name, array in model.items():
        number, kind = name.split(".")
        layer = f"layer_{number}"
        if kind == "weight":
            if layer == FLATTENED[0]:
                array = array.reshape(-1, *FLATTENED[1]).transpose(0, 2, 3, 1)
                array = array.reshape(len(array), -1)
            array = array.transpose(2, 3, 1, 0) if array.ndim == 4 else array.T
        layers.setdefault(layer, {})["w" if kind == "weight" else "b"] = array
    return layers


def to_torch(params: dict) -> Model:
    """The way back."""
    model: Model = {}
    for layer, arrays in params.items():
        weight = np.asarray(arrays["w"])
        weight = weight.transpose(3, 2, 0, 1) if weight.ndim == 4 else weight.T
        if layer == FLATTENED[0]:
            channels, *image = FLATTENED[1]
            weight = weight.reshape(-1, *image, channels).transpose(0, 3, 1, 2)
            weight = weight.reshape(len(weight), -1)
        number = layer.removeprefix("layer_")
        model |= {f"{number}.weight": weight, f"{number}.bias": np.asarray(arrays["b"])}
    return model


def clients_of(turn: Turn) -> list[tuple[int, fedjax.ClientDataset]]:
    x, y = (np.array(array) for array in device_data(turn.folder))
    if x.ndim == 5:
        x = np.ascontiguousarray(x.transpose(0, 1, 3, 4, 2))
    return [(i, fedjax.ClientDataset({"x": x[i], "y": y[i]})) for i in range(turn.job.devices)]


def fed_avg(job: Job, sample: dict) -> fedjax.FederatedAlgorithm:
    model = fedjax.create_model_from_haiku(
        transformed_forward_pass=hk.transform(NETWORKS[job.name]),
        sample_batch=sample,
        train_loss=lambda batch, scores: fedjax.metrics.unreduced_cross_entropy_loss(
            batch["y"], scores
        ),
    )
    return fedjax.algorithms.fed_avg.federated_averaging(
        grad_fn=fedjax.model_grad(model),
        client_optimizer=fedjax.optimizers.sgd(learning_rate=job.stepsize),
        server_optimizer=fedjax.optimizers.sgd(learning_rate=1.0),
        client_batch_hparams=fedjax.ShuffleRepeatBatchHParams(
            batch_size=job.batch, num_epochs=None, num_steps=1
        ),
    )


def main() -> None:
    turn = Turn.from_command_line()
    clients = clients_of(turn)
    algorithm = fed_avg(turn.job, clients[0][1].all_examples())
    state = algorithm.init(to_haiku(initial_model(turn.folder)))
    key = jax.random.PRNGKey(0)
    for t in range(turn.job.all_rounds):
        if t == WARM_UP:
            jax.block_until_ready(state.params)
            turn.warm()
        key, use = jax.random.split(key)
        keys = jax.random.split(use, len(clients))
        state, _ = algorithm.apply(
            state, [(name, data, keys[i]) for i, (name, data) in enumerate(clients)]
        )
    jax.block_until_ready(state.params)
    turn.stop()
    turn.answer(to_torch(state.params), packages=["fedjax", "jax", "dm-haiku", "numpy"])


if __name__ == "__main__":
    main()
