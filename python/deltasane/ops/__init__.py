"""The delta-rule recurrence with SANE, on torch tensors and numpy arrays. States are (value, key).

Each head keeps a matrix S. For every token::

    S <- S diag(w) + (S a) b' + v k'        y <- S r

and after the token at position p with (p + 1) % chunk == 0, where tau is given (SANE)::

    S <- tau tanh(S / tau)

>>> import numpy as np
>>> from deltasane import ops
>>> rng = np.random.default_rng(0)
>>> r, k, v, a, b = (0.1 * rng.standard_normal((1, 35, 2, 64), dtype=np.float32) for _ in range(5))
>>> w = np.full((1, 35, 2, 64), 0.9, np.float32)
>>> y, state = ops.rwkv7(r, w, k, v, a, b, tau=3)
>>> y.shape, state.shape
((1, 35, 2, 64), (1, 2, 64, 64))
"""

from . import reference
from ._calls import Gradients
from ._functions import (
    delta_rule,
    delta_rule_backward,
    neutralize,
    rwkv7,
    rwkv7_backward,
    statistics,
    step,
    tau,
)

__all__ = [
    "Gradients",
    "delta_rule",
    "delta_rule_backward",
    "neutralize",
    "reference",
    "rwkv7",
    "rwkv7_backward",
    "statistics",
    "step",
    "tau",
]
