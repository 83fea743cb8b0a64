"""What torch and numpy calls of the recurrence have alike: names, numbers, chunks, decays."""

import operator
from typing import Any, NamedTuple


class Arrays(NamedTuple):
    """The arrays of one call, in the order of the extension; None: not given."""

    r: Any
    w: Any
    k: Any
    v: Any
    a: Any
    b: Any
    beta: Any
    tau: Any
    state: Any
    mask: Any
    neutralize: Any


# The arrays that have gradients come first.
DIFFERENTIABLE = 9


class Gradients(NamedTuple):
    """Gradients of a loss, each like the argument of its name; None where that was not given."""

    dr: Any
    dw: Any
    dk: Any
    dv: Any
    da: Any
    db: Any
    dbeta: Any
    dtau: Any
    dstate: Any


class Call(NamedTuple):
    """One call whose arguments were checked."""

    rule: str
    arrays: Arrays
    position: list
    cu_seqlens: list
    chunk: int
    definition: bool
    keep: bool


# The class of an array, and the module that computes with it: _torch and _numpy, once they are imported.
LIBRARIES = {}
_LARGEST = 2**62  # of positions and chunks: sums of two are numbers of 64 bits


def settings_of(arrays, position, chunk):
    """What follows the arrays of a direct call (src/python/ops/direct_calls.h), without keep."""
    return [position] * arrays[3].shape[0] if position else [], [], chunk, "generalized", False


def converted(library, arrays, position, chunk, decay):
    """The arrays of a direct call where w is no decay or tau a number, as it takes them; None: unusual.

    library: _torch or _numpy.
    """
    v, tau = arrays[3], arrays[7]
    is_number = type(tau) is float or type(tau) is int
    if decay == "decay" and not is_number:
        return None
    others = None if is_number else tau, *arrays[8:]
    if not library.calls.is_usual((*arrays[:7], *others), position, chunk):  # before anything is computed
        return None
    if decay != "decay":
        arrays = (arrays[0], decay_named(decay)[0](library.xp, arrays[1]), *arrays[2:])
    if is_number:
        batch, time, heads, _ = v.shape
        full = library.full_tau(tau, (batch, chunks_ending(position, time, chunk), heads), v)
        arrays = (*arrays[:7], full, *arrays[8:])
    return arrays


def integers(name, given):
    """A number or a sequence or array of them, as a list."""
    if given is None:
        return []
    if hasattr(given, "tolist"):
        given = given.tolist()
    try:
        numbers = [operator.index(given)] if not isinstance(given, (list, tuple)) else list(map(operator.index, given))
    except TypeError:
        raise TypeError(f"{name}: expected integers, found {given!r}") from None
    for number in numbers:
        if abs(number) > _LARGEST:
            raise ValueError(f"{name}: expected at most 2^62, found {number}")
    return numbers


def whole_number(name, given):
    """One integer of at least 1."""
    if type(given) is int and 1 <= given <= _LARGEST:
        return given
    numbers = integers(name, given)
    if len(numbers) != 1:
        raise ValueError(f"{name}: expected one number, found {given!r}")
    if numbers[0] < 1:
        raise ValueError(f"{name}: expected at least 1, found {numbers[0]}")
    return numbers[0]


def positions(given, rows):
    """The position of each row's first token; an empty list: all 0."""
    if type(given) is int and given == 0:
        return []
    numbers = integers("position", given)
    for number in numbers:
        if number < 0:
            raise ValueError(f"position: expected 0 or more, found {number}")
    if numbers == [0]:
        return []
    if len(numbers) == 1:
        return numbers * rows
    if len(numbers) != rows:
        raise ValueError(f"position: expected a number or {rows} of them, found {len(numbers)}")
    return numbers


def chunks_ending(position, time, chunk):
    return (position + time) // chunk - position // chunk


def chunk_count(position, cu_seqlens, time, chunk):
    """The size of tau's second dimension."""
    if cu_seqlens:
        texts = zip(cu_seqlens, cu_seqlens[1:])
        return sum(
            chunks_ending(position[i] if position else 0, end - begin, chunk) for i, (begin, end) in enumerate(texts)
        )
    if not position:
        return time // chunk
    return max(chunks_ending(p, time, chunk) for p in position)


# Where w is not the decay itself: decay = f(w), and df/dw from w and the decay. xp: numpy or torch.
_CLAMP = 0.6065306597126334  # exp(-1/2)


def _sigmoid(xp, w):
    return 1 / (1 + xp.exp(-w))


DECAYS = {
    "decay": (lambda xp, w: w, lambda xp, w, decay: 1),
    "log": (lambda xp, w: xp.exp(w), lambda xp, w, decay: decay),
    "rwkv": (lambda xp, w: xp.exp(-xp.exp(w)), lambda xp, w, decay: -decay * xp.exp(w)),
    "clampw": (
        lambda xp, w: xp.exp(-_CLAMP * _sigmoid(xp, w)),
        lambda xp, w, decay: -_CLAMP * decay * _sigmoid(xp, w) * (1 - _sigmoid(xp, w)),
    ),
}


def decay_named(name):
    if name not in DECAYS:
        raise ValueError(f"decay: expected one of {', '.join(DECAYS)}, found {name!r}")
    return DECAYS[name]


def check_shape(name, x, shape):
    if x is None or x.shape != shape:
        found = "none" if x is None else tuple(x.shape)
        raise ValueError(f"{name}: expected shape {tuple(shape)}, found {found}")


_RULES = ("generalized", "deltanet", "gated_deltanet", "kda")


def check_rule(rule):
    if rule not in _RULES:
        raise ValueError(f"rule: expected {', '.join(_RULES[:-1])} or {_RULES[-1]}, found {rule!r}")


def check_shapes(rule, given, cu_seqlens):
    """Before anything is computed, copied or allocated that is as large as one array of a wrong shape says."""
    check_rule(rule)
    batch, time, key_heads, keys = given.k.shape
    heads, values = given.v.shape[2:]
    if rule == "generalized":
        heads = key_heads
    tokens = (batch, time, heads)
    check_shape("v", given.v, (*tokens, values))
    check_shape("r", given.r, given.k.shape)
    if rule == "generalized":
        for name in ("w", "a", "b"):
            check_shape(name, getattr(given, name), given.k.shape)
    else:
        check_shape("beta", given.beta, tokens)
    if rule in ("gated_deltanet", "kda"):
        check_shape("w", given.w, tokens if rule == "gated_deltanet" else (*tokens, keys))
    rows = len(cu_seqlens) - 1 if cu_seqlens and batch == 1 else batch
    if given.state is not None:
        check_shape("state", given.state, (rows, heads, values, keys))


def check_tokens(name, x):
    check_axes(name, x, "batch, time, head, channel")


def check_axes(name, x, axes):
    """Without a look at its class."""
    if not hasattr(x, "ndim") or not hasattr(x, "shape"):
        raise TypeError(f"{name}: expected an array ({axes}), found {'none' if x is None else type(x).__name__}")
    if x.ndim != axes.count(",") + 1:
        raise ValueError(f"{name}: expected ({axes}), found shape {tuple(x.shape)}")
