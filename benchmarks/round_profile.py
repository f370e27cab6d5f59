"""Where the time of a round goes: the operations of one round, the longest first.

python benchmarks/round_profile.py --model linear --lanes 96
python benchmarks/round_profile.py --model cnn --devices 10
python benchmarks/round_profile.py --model cnn --device cuda --precision bf16
python benchmarks/round_profile.py --model resnet8 --device cuda --set training.batch=32
"""

import argparse
from itertools import islice

import numpy as np
import torch
from modules import resnet8, vit
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from skerry.config.experiment import Experiment
from skerry.data.sources.catalog import from_arrays
from skerry.engine.simulate import simulate
from skerry.engine.stack import build_stack
from skerry.engine.world import Materials, build_world

IMAGES = (32, 32, 3)
MODELS = {
    "linear": ((784,), "linear"),
    "cnn": (IMAGES, "cnn_cifar10"),
    "resnet8": (IMAGES, resnet8),
    "vit": (IMAGES, vit),
}
"""The shape of the inputs, and a model by name or as a function."""
WARM_UP = 3
MOMENTS_PER_ROUND = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="linear")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--rows", type=int, default=16)
    options = parser.parse_args()
    shape, model = MODELS[options.model]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, *shape), dtype=np.float32)
    y = np.arange(len(x)) % 10
    base = Experiment.parse(
        {},
        [
            *([f"model.name={model}"] if isinstance(model, str) else []),
            f"network.devices={options.devices}",
            f"server.sampled={max(1, options.devices // 5)}",
            f"training.precision={options.precision}",
            "evaluate.every=100000",
            "rounds=100000",
            "data.inter=iid",
            *options.set,
        ],
    )
    materials = Materials(
        dataset=from_arrays(x, y, x[:100], y[:100]), model=model if callable(model) else None
    )
    world = build_world(base, materials, options.device)
    etas = np.geomspace(0.001, 0.01, options.lanes)
    stack = build_stack(world, [base.with_settings(f"training.stepsize={eta}") for eta in etas])
    moments = simulate(stack)
    for _ in islice(moments, 1 + WARM_UP * MOMENTS_PER_ROUND):
        pass
    on_gpu = world.device.type == "cuda"
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=kinds) as found:
        for _ in islice(moments, MOMENTS_PER_ROUND):
            pass
        if on_gpu:
            torch.cuda.synchronize()

    def milliseconds(event) -> float:
        took = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        return took / 1e3

    # On a GPU, kernels alone: what called them is listed with their time once more.
    there = DeviceType.CUDA if on_gpu else DeviceType.CPU
    counted = (event for event in found.key_averages() if event.device_type == there)
    events = sorted(counted, key=milliseconds, reverse=True)
    total = sum(map(milliseconds, events))
    print(f"{'operation':70} {'times':>6} {'ms':>9} {'share':>6}")
    for event in events[: options.rows]:
        took = milliseconds(event)
        print(f"{event.key[:70]:70} {event.count:6} {took:9.3f} {took / total:6.0%}")
    print(f"{'all':70} {'':6} {total:9.3f}")


if __name__ == "__main__":
    main()
