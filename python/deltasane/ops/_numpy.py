"""The recurrence on numpy arrays, and on what numpy takes through DLPack from other libraries."""

import functools
import sys

import numpy as np

from .. import _ops
from ._calls import DIFFERENTIABLE, LIBRARIES, Arrays, check_shape, converted

xp = np
_this = LIBRARIES[np.ndarray] = sys.modules[__name__]
calls = _ops.direct_numpy_calls(np.ndarray, np.dtype(np.float32), np.empty)


def full_tau(tau, shape, v):
    return _full(tau, shape)


@functools.lru_cache(maxsize=8)  # calls that follow each other have one tau; to fill it takes 1 us
def _full(number, shape):
    full = np.full(shape, number, np.float32)
    full.flags.writeable = False
    return full


def direct(arrays, position, chunk, decay, keep):
    """y and the state where nothing is unusual, else None."""
    found = calls.run(arrays, position, chunk, decay, False)
    if found is None:
        arrays = converted(_this, arrays, position, chunk, decay)
        found = arrays and calls.run(arrays, position, chunk, "decay", False)
    return found


def _array(name, given):
    if isinstance(given, np.ndarray):
        return given
    if name == "tau" and isinstance(given, (int, float)):
        return given
    if hasattr(given, "__dlpack__") and type(given).__module__.split(".")[0] != "torch":
        return np.from_dlpack(given)
    raise TypeError(f"{name}: expected a numpy array, found {type(given).__name__}")


def array(name, given, like):
    """As numpy's own; like: the first argument, for what must be the same."""
    return _array(name, given)


def _usable(x):
    """The kernels need whole, aligned elements, and a head's channels one after another."""
    flags = x.flags
    if flags.c_contiguous and flags.aligned:
        return x
    size = x.itemsize
    if not flags.aligned or any(s % size for s in x.strides) or (x.ndim == 4 and x.strides[3] != size):
        return x.copy()
    return x


_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_FIELDS = Arrays._fields


def checked(arrays, definition):
    first = getattr(arrays[0], "dtype", None)
    real = _FLOAT64 if definition and first == _FLOAT64 else _FLOAT32
    found = list(arrays)
    for i in range(len(arrays)):
        x = arrays[i]
        if x is None:
            continue
        if type(x) is not np.ndarray:
            x = _array(_FIELDS[i], x)
        if i >= DIFFERENTIABLE:
            if x.dtype not in (np.bool_, np.uint8):
                raise TypeError(f"{_FIELDS[i]}: expected bool, found {x.dtype}")
            x = x.view(np.uint8)
        elif not isinstance(x, np.ndarray):  # tau as a number
            x = np.asarray(x, real)
        elif x.dtype != real:
            raise TypeError(f"{_FIELDS[i]}: expected {real}, found {x.dtype}")
        found[i] = x
    return found


def spread(tau, shape):
    if tau.ndim == 1 and tau.shape[0] != shape[2]:
        raise ValueError(f"tau: expected ({shape[2]},), one for each head, found {tau.shape}")
    return np.broadcast_to(tau, shape)


def gathered(dtau, ndim):
    """The gradient of a tau that was spread out."""
    return dtau.sum((0, 1)) if ndim == 1 else dtau.sum()


def zeros(like, shape):
    return np.zeros(shape, like.dtype)


def tau(x, weight, alpha):
    x, weight = _array("x", x), _array("weight", weight)
    if x.dtype != np.float32 or weight.dtype != np.float32:
        raise TypeError(f"x, weight: expected float32, found {x.dtype} and {weight.dtype}")
    z = np.ascontiguousarray(x @ weight)
    result = np.empty_like(z)
    _ops.tau(z, alpha, result)
    return result


def _state_shape(call):
    r, v = call.arrays.k, call.arrays.v
    rows = len(call.cu_seqlens) - 1 if call.cu_seqlens else v.shape[0]
    return rows, v.shape[2], v.shape[3], r.shape[-1]


def _usable_arrays(call):
    return Arrays(*(None if x is None else _usable(x) for x in call.arrays))


def forward(call):
    call = call._replace(arrays=_usable_arrays(call))
    v = call.arrays.v
    y = np.empty(v.shape, v.dtype)
    state = np.empty(_state_shape(call), v.dtype)
    if call.definition:
        _ops.definition(v.itemsize == 8, *call[:5], (y, state))
    else:
        _ops.forward(*call[:5], (y, state))
    return y, state


def backward(call, dy, dstate):
    call = call._replace(arrays=_usable_arrays(call))
    v = call.arrays.v
    given = []
    for name, x, shape in (("dy", dy, v.shape), ("dstate", dstate, _state_shape(call))):
        if x is not None:
            x = _array(name, x)
            if x.dtype != v.dtype:
                raise TypeError(f"{name}: expected {v.dtype}, found {x.dtype}")
            check_shape(name, x, shape)
            x = _usable(x)
        given.append(x)
    if given[0] is None:
        given[0] = np.zeros_like(v)
    results = [None if x is None else np.empty(x.shape, x.dtype) for x in call.arrays[:DIFFERENTIABLE]]
    if call.arrays.state is None:
        results[-1] = np.empty(_state_shape(call), v.dtype)
    if call.definition:
        _ops.definition_backward(v.itemsize == 8, *call[:5], tuple(given), tuple(results))
    else:
        _ops.backward(*call[:5], tuple(given), tuple(results))
    return results
