"""The public functions of deltasane.ops."""

import importlib
import sys

from ._calls import (
    LIBRARIES,
    Arrays,
    Call,
    Gradients,
    check_axes,
    check_shapes,
    check_tokens,
    chunk_count,
    decay_named,
    integers,
    positions,
    whole_number,
)


def _library(x):
    """What computes with x: torch's operators, or numpy's. Neither is imported before it is needed."""
    return LIBRARIES.get(type(x)) or _library_of_others(x)


def _library_of_others(x):
    """Of classes that were not seen before, or are derived from the usual ones."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return sys.modules.get(_TORCH) or importlib.import_module(_TORCH)
    return sys.modules.get(_NUMPY) or importlib.import_module(_NUMPY)


_TORCH, _NUMPY = f"{__package__}._torch", f"{__package__}._numpy"


def _checked(library, rule, arrays, position, cu_seqlens, chunk, decay, definition, keep):
    """The call, and the arrays before tau was spread out and w became a decay."""
    if not isinstance(rule, str):
        raise TypeError(f"rule: expected a name, found {rule!r}")
    given = Arrays(*library.checked(arrays, definition))
    check_tokens("v", given.v)
    check_tokens("k", given.k)
    batch, time, heads = given.v.shape[:3]
    chunk = whole_number("chunk", chunk)
    ends = integers("cu_seqlens", cu_seqlens)
    if cu_seqlens is not None and len(ends) < 2:
        raise ValueError(f"cu_seqlens: expected at least 2 numbers, found {len(ends)}")
    check_shapes(rule, given, ends)
    start = positions(position, len(ends) - 1 if ends else batch)
    used = given
    if given.tau is not None and given.tau.ndim < 2:
        shape = (batch, chunk_count(start, ends, time, chunk), heads)
        used = used._replace(tau=library.spread(given.tau, shape))
    if decay != "decay" and given.w is not None:
        used = used._replace(w=decay_named(decay)[0](library.xp, given.w))
    return Call(rule, used, start, ends, chunk, definition, keep), given


def rwkv7(
    r, w, k, v, a, b, *, tau=None, state=None, position=0, chunk=16, decay="decay", mask=None,
    neutralize=None, cu_seqlens=None, keep=True, _definition=False,
):  # fmt: skip
    """RWKV-7's recurrence with SANE; states are (batch, head, value, key). Returns (y, final state).

    r, w, k, a, b are (batch, time, head, key) and v is (batch, time, head, value), of any time, also
    0. All are float32, or on a GPU bfloat16; w, tau and state are float32 always. Nothing is changed in
    place, and of torch tensors every gradient is exact, also those of tau and of both states.

    tau       (batch, chunks, head), (head) or a number, above 0: SANE. None: without SANE
    state     the state before the first token; None: zero
    position  of the first token in its stream, a number or one for each row: chunks end by it, so
              that the parts of a text give what the whole text gives
    chunk     tokens after which the state is neutralized
    decay     what w is: "decay" (w itself), "log" (decay = exp(w), as in fla), "rwkv"
              (exp(-exp(w)), as in RWKV-LM and rwkv_ops), "clampw" (exp(-exp(-1/2) sigmoid(w)))
    mask      (batch, time) bool: False is padding, which changes nothing, and whose y is 0
    neutralize  (batch, chunks) bool: False leaves the state as it is after that chunk
    cu_seqlens  where texts begin and the last ends, for texts one after another in one row. Then
              states are (text, head, value, key), position is a number or one for each text, and
              the chunks of all texts follow each other in tau
    keep      keep the states that backward needs, 16 KiB a head for 16 tokens, instead of computing
              them twice. On a GPU; a CPU computes them twice

    Two parts of a text, with the state and the position carried over, are the whole text bit for
    bit where the first ends at a multiple of 16.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = [0.1 * rng.standard_normal((1, 48, 2, 64), dtype=np.float32) for _ in range(5)]
    >>> r, k, v, a, b = x
    >>> w = np.full_like(r, 0.9)
    >>> y, state = rwkv7(r, w, k, v, a, b, tau=1.5)
    >>> cut = lambda x, part: x[:, part]
    >>> first, rest = slice(0, 16), slice(16, 48)
    >>> y1, middle = rwkv7(*(cut(x, first) for x in (r, w, k, v, a, b)), tau=1.5)
    >>> y2, end = rwkv7(*(cut(x, rest) for x in (r, w, k, v, a, b)), tau=1.5, state=middle, position=16)
    >>> np.array_equal(np.concatenate([y1, y2], 1), y) and np.array_equal(end, state)
    True
    """
    library = _library(r)
    if cu_seqlens is None and not _definition:
        found = library.direct((r, w, k, v, a, b, None, tau, state, mask, neutralize), position, chunk, decay, keep)
        if found is not None:
            return found
    arrays = Arrays(r, w, k, v, a, b, None, tau, state, mask, neutralize)
    call, _ = _checked(library, "generalized", arrays, position, cu_seqlens, chunk, decay, _definition, keep)
    return library.forward(call)


def delta_rule(
    r, k, v, beta, w=None, *, rule, tau=None, state=None, position=0, chunk=16, decay="decay", mask=None,
    neutralize=None, cu_seqlens=None, keep=True, _definition=False,
):  # fmt: skip
    """DeltaNet and its relatives with SANE; states are (batch, head, value, key). Returns (y, final state).

    By rule, for every token, then y <- S r::

        "deltanet"        S <- S (I - beta k k') + beta v k'
        "gated_deltanet"  S <- w S (I - beta k k') + beta v k'         w: (batch, time, head)
        "kda"             S <- S diag(w) (I - beta k k') + beta v k'   w: (batch, time, head, key)

    beta is (batch, time, head). r and k may have fewer heads than v: each serves as many neighbours.
    Scales and normalisations of r and k are the caller's. On a GPU vectors are bfloat16, and keys have 64, 96, 128 or 256
    channels. What else there is, is as in rwkv7.

    >>> import numpy as np
    >>> one = np.ones((1, 5, 2, 16), np.float32) / 4
    >>> beta = np.full((1, 5, 2), 0.5, np.float32)
    >>> y, state = delta_rule(one, one, one, beta, rule="deltanet")
    >>> state.shape
    (1, 2, 16, 16)
    """
    arrays = Arrays(r, w, k, v, None, None, beta, tau, state, mask, neutralize)
    library = _library(r)
    call, _ = _checked(library, rule, arrays, position, cu_seqlens, chunk, decay, _definition, keep)
    return library.forward(call)


def _gradients(dy, dstate, library, call, given, decay):
    from . import _numpy

    if library is not _numpy:
        raise TypeError("dy: expected numpy arrays; of torch tensors, torch's own backward gives the gradients")
    gradients = Gradients(*library.backward(call, dy, dstate))
    if given.tau is not None and given.tau.ndim < 2:
        gradients = gradients._replace(dtau=library.gathered(gradients.dtau, given.tau.ndim))
    if given.w is not None and decay != "decay":
        factor = decay_named(decay)[1](library.xp, given.w, call.arrays.w)
        gradients = gradients._replace(dw=gradients.dw * factor)
    return gradients


def rwkv7_backward(
    dy, r, w, k, v, a, b, *, dstate=None, tau=None, state=None, position=0, chunk=16, decay="decay",
    mask=None, neutralize=None, cu_seqlens=None, _definition=False,
):  # fmt: skip
    """The gradients of rwkv7 on numpy arrays, from those of y (dy) and of the final state (dstate).

    >>> import numpy as np
    >>> x = np.full((1, 20, 1, 16), 0.1, np.float32)
    >>> gradients = rwkv7_backward(x, x, x, x, x, x, x, tau=2.0)
    >>> gradients.dw.shape, gradients.dtau.shape
    ((1, 20, 1, 16), ())
    """
    arrays = Arrays(r, w, k, v, a, b, None, tau, state, mask, neutralize)
    library = _library(r)
    call, given = _checked(library, "generalized", arrays, position, cu_seqlens, chunk, decay, _definition, False)
    return _gradients(dy, dstate, library, call, given, decay)


def delta_rule_backward(
    dy, r, k, v, beta, w=None, *, rule, dstate=None, tau=None, state=None, position=0, chunk=16, decay="decay",
    mask=None, neutralize=None, cu_seqlens=None, _definition=False,
):  # fmt: skip
    """The gradients of delta_rule on numpy arrays, from those of y (dy) and of the final state (dstate)."""
    arrays = Arrays(r, w, k, v, None, None, beta, tau, state, mask, neutralize)
    library = _library(r)
    call, given = _checked(library, rule, arrays, position, cu_seqlens, chunk, decay, _definition, False)
    return _gradients(dy, dstate, library, call, given, decay)


def step(r, w, k, v, a, b, state, *, position, tau=None, chunk=16, decay="decay"):
    """One token of rwkv7: arrays are (batch, head, channel). Returns (y, state).

    tau, (batch, head), (head) or a number, is used where the token ends a chunk.

    >>> import numpy as np
    >>> x = np.full((1, 2, 64), 0.1, np.float32)
    >>> y, state = step(x, x, x, x, x, x, np.zeros((1, 2, 64, 64), np.float32), position=15, tau=1.5)
    >>> y.shape
    (1, 2, 64)
    """
    library, token = _library(r), []
    for name, x in zip("rwkvab", (r, w, k, v, a, b)):
        x = library.array(name, x, r)
        check_axes(name, x, "batch, head, channel")
        token.append(x[:, None])
    if tau is not None and getattr(tau, "ndim", 0) == 2:
        numbers = integers("position", position)
        if len(numbers) != 1:
            raise ValueError(f"position: expected one number where tau is (batch, head), found {position!r}")
        ends = (numbers[0] + 1) % whole_number("chunk", chunk) == 0
        tau = tau[:, None] if ends else tau[:, None][:, :0]
    y, state = rwkv7(*token, tau=tau, state=state, position=position, chunk=chunk, decay=decay)
    return y[:, 0], state


def neutralize(state, tau):
    """tau tanh(state / tau), as the recurrence computes it. tau: (batch, head), (head) or a number.

    >>> import numpy as np
    >>> round(float(neutralize(np.full((1, 1, 16, 16), 1e6, np.float32), 2.0).max()), 3)
    2.0
    """
    check_axes("state", state, "batch, head, value, key")
    library = _library(state)
    nothing = library.zeros(state, (state.shape[0], 1, state.shape[1], state.shape[3]))
    values = library.zeros(state, (state.shape[0], 1, state.shape[1], state.shape[2]))
    if getattr(tau, "ndim", 0) == 2:
        tau = tau[:, None]
    return rwkv7(nothing, nothing + 1, nothing, values, nothing, nothing, tau=tau, state=state, chunk=1)[1]


def tau(x, weight, alpha):
    """SANE's tau = alpha softplus(x weight) + 1: x (..., channel), weight (channel, head), of float32.

    >>> import numpy as np
    >>> tau(np.zeros((1, 2, 8), np.float32), np.zeros((8, 3), np.float32), 3).round(3).tolist()[0][0]
    [3.0789999961853027, 3.0789999961853027, 3.0789999961853027]
    """
    return _library(x).tau(x, weight, float(alpha))

def statistics(state, tau=None):
    """What a state looks like, head by head: a numpy record array (batch, head).

    norm (Frobenius), largest |S|, quantiles of |S|, shares of entries above 10 and 100 and below 0.1;
    with tau, a number, the shares that SANE leaves alone (near_identity), saturates, and the rest.

    >>> import numpy as np
    >>> float(statistics(np.ones((1, 2, 4, 4), np.float32))["norm"][0, 0])
    4.0
    """
    from ..states import head_statistics

    return head_statistics(state, tau)
