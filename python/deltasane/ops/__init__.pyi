from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import reference as reference

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

# numpy arrays or torch tensors; all of a call are of one kind.
_Array = TypeVar("_Array")
_Numbers = int | Sequence[int] | Any

class Gradients(NamedTuple):
    dr: Any
    dw: Any
    dk: Any
    dv: Any
    da: Any
    db: Any
    dbeta: Any
    dtau: Any
    dstate: Any

def rwkv7(
    r: _Array,
    w: _Array,
    k: _Array,
    v: _Array,
    a: _Array,
    b: _Array,
    *,
    tau: _Array | float | None = None,
    state: _Array | None = None,
    position: _Numbers = 0,
    chunk: int = 16,
    decay: str = "decay",
    mask: Any = None,
    neutralize: Any = None,
    cu_seqlens: _Numbers | None = None,
    keep: bool = True,
) -> tuple[_Array, _Array]: ...
def delta_rule(
    r: _Array,
    k: _Array,
    v: _Array,
    beta: _Array,
    w: _Array | None = None,
    *,
    rule: str,
    tau: _Array | float | None = None,
    state: _Array | None = None,
    position: _Numbers = 0,
    chunk: int = 16,
    decay: str = "decay",
    mask: Any = None,
    neutralize: Any = None,
    cu_seqlens: _Numbers | None = None,
    keep: bool = True,
) -> tuple[_Array, _Array]: ...
def rwkv7_backward(
    dy: _Array,
    r: _Array,
    w: _Array,
    k: _Array,
    v: _Array,
    a: _Array,
    b: _Array,
    *,
    dstate: _Array | None = None,
    tau: _Array | float | None = None,
    state: _Array | None = None,
    position: _Numbers = 0,
    chunk: int = 16,
    decay: str = "decay",
    mask: Any = None,
    neutralize: Any = None,
    cu_seqlens: _Numbers | None = None,
) -> Gradients: ...
def delta_rule_backward(
    dy: _Array,
    r: _Array,
    k: _Array,
    v: _Array,
    beta: _Array,
    w: _Array | None = None,
    *,
    rule: str,
    dstate: _Array | None = None,
    tau: _Array | float | None = None,
    state: _Array | None = None,
    position: _Numbers = 0,
    chunk: int = 16,
    decay: str = "decay",
    mask: Any = None,
    neutralize: Any = None,
    cu_seqlens: _Numbers | None = None,
) -> Gradients: ...
def step(
    r: _Array,
    w: _Array,
    k: _Array,
    v: _Array,
    a: _Array,
    b: _Array,
    state: _Array,
    *,
    position: int,
    tau: _Array | float | None = None,
    chunk: int = 16,
    decay: str = "decay",
) -> tuple[_Array, _Array]: ...
def neutralize(state: _Array, tau: _Array | float) -> _Array: ...
def tau(x: _Array, weight: _Array, alpha: float) -> _Array: ...
def statistics(state: Any, tau: float | None = None) -> NDArray[np.void]: ...
