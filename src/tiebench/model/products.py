"""Matrix products over the vocabulary, by torch's own kernel or by oneDNN's.

Both compute in float32 and differ by rounding. `TIEBENCH_PRODUCTS` chooses (`tiebench.runtime`): on
processors for which torch's library has no kernel of full width, oneDNN's is the faster one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tiebench.runtime import onednn_products


def linear(x: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    """`[n, width]` states and a table `[vocabulary, width]` to logits `[n, vocabulary]`."""
    if onednn_products():
        return _onednn(x, table, bias)
    return torch.mm(x, table.T) if bias is None else torch.addmm(bias, x, table.T)


def times(left: Tensor, right: Tensor) -> Tensor:
    """`[n, k]` times `[k, m]`."""
    return _onednn(left, right.T) if onednn_products() else torch.mm(left, right)


def add_product(total: Tensor, left: Tensor, right: Tensor, *, first: bool) -> None:
    """Add `[n, k]` times `[k, m]` to a total `[n, m]`; the first one is written in its place."""
    if not onednn_products():
        total.addmm_(left, right, beta=float(not first))
    elif first:
        total.copy_(_onednn(right.T, left).T)
    else:
        total.add_(_onednn(right.T, left).T)


def _onednn(x: Tensor, table: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, table, bias, "none", [], "")
