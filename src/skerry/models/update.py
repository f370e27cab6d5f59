"""The step W <- W - P x of a layer, for many models at once, in place."""

from torch import Tensor

from skerry.kernels import fused


def subtract_product(W_nrk: Tensor, P_nrb: Tensor, x_nbk: Tensor) -> None:
    """P carries the stepsize; the update happens inside the product, so no gradient is stored."""
    if fused.runs_on(W_nrk):
        from skerry.kernels import products

        products.subtract_product(W_nrk, P_nrb, x_nbk)
    elif len(W_nrk) == 1:  # on a CPU, one product is quicker than a batch of one
        W_nrk[0].addmm_(P_nrb[0], x_nbk[0], alpha=-1)
    else:
        W_nrk.baddbmm_(P_nrb, x_nbk, alpha=-1)
