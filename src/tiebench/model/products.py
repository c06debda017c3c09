"""The matrix products of the cross-entropy over a vocabulary, by torch's own library or by oneDNN.

Both compute in float32 and differ by rounding. `TIEBENCH_PRODUCTS` chooses (`tiebench.runtime`): on
processors for which torch's library has no kernel of full width, oneDNN's is the faster one. Other
types are torch's.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tiebench.runtime import onednn_products


def linear(x: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    """`[n, width]` states and a table `[vocabulary, width]` to logits `[n, vocabulary]`."""
    if _by_onednn(x):
        return _onednn(x, table, bias)
    return torch.mm(x, table.T) if bias is None else torch.addmm(bias, x, table.T)


def write_product(out: Tensor, left: Tensor, right: Tensor) -> None:
    """Write `[n, k]` times `[k, m]` into `[n, m]`."""
    if _by_onednn(left):
        out.copy_(_onednn(left, right.T))
    else:
        torch.mm(left, right, out=out)


def add_product(total: Tensor, left: Tensor, right: Tensor, *, first: bool) -> None:
    """Add `[n, k]` times `[k, m]` to a total `[n, m]`; the first one is written in its place."""
    if not _by_onednn(left):
        total.addmm_(left, right, beta=float(not first))
    elif first:
        total.copy_(_onednn(right.T, left).T)
    else:
        total.add_(_onednn(right.T, left).T)


def _by_onednn(x: Tensor) -> bool:
    return x.dtype == torch.float32 and onednn_products()


def _onednn(x: Tensor, table: Tensor, bias: Tensor | None = None) -> Tensor:
    held = None if bias is None else bias.contiguous()  # its stride is not looked at
    return torch.ops.mkldnn._linear_pointwise(x, table, held, "none", [], "")
