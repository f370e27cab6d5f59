"""FedVARP: a server that remembers the last update of every device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.config.methods import SERVER_ONLY, not_selected_by, reaches_sleepers
from skerry.config.presets import server_only_settings
from skerry.methods.method import Aggregation, Arrays, Lanes, Method, Traffic

if TYPE_CHECKING:
    from torch import Tensor


class FedVarp(Method):
    """Correct the mean of the remembered updates by the updates of the sampled devices.

    This removes the error of sampling, and leaves the drift of local steps.
    """

    name = "fedvarp"
    rule = (
        "x <- x - mean over the sampled of (D_i - g_i) - mean of all g; then g_i <- D_i, the "
        "update of a sampled device."
    )
    keeps = "the last update of every device, at the server: 1 array"
    sends = "0 over links; K up; n down"
    exact = "no: it ends where FedAvg with all devices ends; sampling adds no error, local steps do"
    citation = "Jhunjhunwala et al., UAI 2022"
    checked = "read in code of others"
    presets = (("fedvarp", server_only_settings("fedvarp"), "As scaffold."),)
    rules = (*SERVER_ONLY, not_selected_by("importance"), reaches_sleepers)
    is_repeatable = True

    def start(self, X_nld: Tensor) -> Arrays:
        return {"table": X_nld.new_zeros(X_nld.shape), "x0": X_nld[0].clone()}

    def aggregate(self, lanes: Lanes, server: Aggregation) -> Traffic:
        X, S, own = lanes.X_nld, server.sampled_k, lanes.state
        own["x0"] -= self.update(own["table"], own["x0"] - X[S], server)
        X[:] = own["x0"]
        return Traffic(len(S), len(X))

    def update(self, table_nld: Tensor, update_kld: Tensor, server: Aggregation) -> Tensor:
        """The update [l, d] of the server's model; the table takes the sampled updates."""
        import torch

        S = server.sampled_k
        fresh = torch.einsum("k,kld->ld", server.weights_k, update_kld - table_nld[S])
        update_ld = fresh + table_nld.mean(dim=0)
        table_nld[S] = update_kld
        return update_ld
