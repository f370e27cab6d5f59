"""MIFA: the mean of the last updates of all devices, remembered by the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skerry.config.presets import CODE, server_only_settings
from skerry.methods.fedvarp import FedVarp

if TYPE_CHECKING:
    from torch import Tensor

    from skerry.methods.method import Aggregation


class Mifa(FedVarp):
    """Move by the mean of the remembered updates, from a table of zeros."""

    name = "mifa"
    rule = "g_i <- D_i for the sampled; x <- x - mean of all g."
    exact = "no: as fedvarp"
    citation = "Gu et al., NeurIPS 2021; theirs first waits until every device was sampled once"
    checked = f"{CODE}hmgxr128/MIFA_code"
    presets = (
        (
            "mifa",
            server_only_settings("mifa"),
            "It does not wait until every device was sampled once. Otherwise as scaffold.",
        ),
    )

    def update(self, table_nld: Tensor, update_kld: Tensor, server: Aggregation) -> Tensor:
        table_nld[server.sampled_k] = update_kld
        return table_nld.mean(dim=0)
