"""Methods that track the gradient of all: two arrays travel over every link."""

import torch
from torch import Tensor

from skerry.errors import SkerryError
from skerry.kernels import fused
from skerry.methods.method import Arrays, Lanes, Method, Mixing, ServerRound, Traffic, inverse


class GradientTracking(Method):
    """Devices step along Y, which follows the mean of all gradients: Y <- Y + G - G before it.

    Y goes to the server by S2S, whatever X does: then the mean of Y is the mean of the last
    gradients, always. By S2A it would not be, and the fleet would settle at a wrong point; kept at
    home, islands would never learn of each other. Both can be had, to be seen.
    """

    travels = 2

    def __init__(self, *, tracker: str):
        self.tracker = tracker

    def repeats(self, t: int) -> bool:
        return True

    def start(self, X_nld: Tensor) -> Arrays:
        return {"y": torch.zeros_like(X_nld), "gradient": torch.zeros_like(X_nld)}

    def before_step(self, lanes: Lanes) -> Tensor | None:
        X, Y, last = lanes.X_nld, lanes.own["y"], lanes.own["gradient"]
        if fused.runs_on(X):
            from skerry.kernels.tracking import before_step

            before_step(X, Y, last)
            return None
        return X.clone()

    def after_step(self, lanes: Lanes, kept: Tensor | None) -> None:
        X, Y, last = lanes.X_nld, lanes.own["y"], lanes.own["gradient"]
        if kept is None:
            from skerry.kernels.tracking import after_step

            after_step(X, Y, last, lanes.eta_l1)
            return
        Y.sub_(last)
        torch.sub(kept, X, out=last)
        last.mul_(inverse(lanes.eta_l1))
        Y.add_(last)
        torch.addcmul(kept, Y, lanes.eta_l1, value=-1, out=X)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        mix(lanes.X_nld)
        mix(lanes.own["y"])

    def meet(self, lanes: Lanes, server: ServerRound) -> Traffic:
        sampled, Y = len(server.sampled_k), lanes.own["y"]
        received = server.deliver(lanes.X_nld)
        if self.tracker == "home":
            return Traffic(sampled, received)
        if self.tracker == "s2s":
            server.share(Y)
            return Traffic(2 * sampled, received + sampled)
        everybody = server.everybody
        Y[everybody] = torch.einsum("k,kld->ld", server.weights_k, Y[server.sampled_k])
        return Traffic(2 * sampled, received + len(everybody))


class SdGt(Method):
    """SD-GT: Y corrects for what islands differ in, Z for what devices of an island do; Z is
    gathered while devices mix, and used from the next server round on."""

    travels = 2

    def repeats(self, t: int) -> bool:
        return True

    def start(self, X_nld: Tensor) -> Arrays:
        return {
            **{name: torch.zeros_like(X_nld) for name in ("y", "z", "z_next", "sum")},
            "x_start": X_nld.clone(),
            "s": X_nld[0].clone(),
        }

    def before_step(self, lanes: Lanes) -> Tensor:
        return lanes.X_nld.clone()

    def after_step(self, lanes: Lanes, kept: Tensor | None) -> None:
        assert kept is not None
        X, own = lanes.X_nld, lanes.own
        torch.sub(kept, X, out=own["sum"])
        own["sum"].mul_(inverse(lanes.eta_l1)).add_(own["z"])  # G + Z, which is mixed too
        X.addcmul_(own["y"], lanes.eta_l1, value=-1).addcmul_(own["z"], lanes.eta_l1, value=-1)

    def mix(self, lanes: Lanes, mix: Mixing) -> None:
        mix(lanes.X_nld)
        own = lanes.own
        own["z_next"].sub_(own["sum"], alpha=1 / lanes.period)
        mix(own["sum"])
        own["z_next"].add_(own["sum"], alpha=1 / lanes.period)

    def meet(self, lanes: Lanes, server: ServerRound) -> Traffic:
        X, own, S = lanes.X_nld, lanes.own, server.sampled_k
        moved = X[S] - own["x_start"][S] + server.walked_l1 * own["y"][S]
        island_k = server.islands_n[S]
        sizes = server.islands_n.bincount()
        belongs_ck = island_k == torch.arange(len(sizes), device=S.device)[:, None]
        counts = belongs_ck.sum(dim=1)
        if not counts.all():
            raise SkerryError(
                "method 'sd_gt' needs every island at the server (in round "
                f"{lanes.t} one was not sampled). Set server.selection=one_each."
            )
        means = torch.einsum("ck,kld->cld", belongs_ck / counts[:, None].to(moved), moved)
        mean = torch.einsum("c,cld->ld", sizes.to(means) / sizes.sum(), means)
        own["s"] += mean
        own["y"][S] = (means[island_k] - mean) * inverse(server.walked_l1)
        X[S] = own["s"]
        own["z"].copy_(own["z_next"])
        own["x_start"].copy_(X)
        return Traffic(len(S), 2 * len(S))
