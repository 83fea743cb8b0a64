"""DeltaNet, Gated DeltaNet and KDA on CUDA tensors, as _torch_gpu has RWKV-7's rule.

The kernels take bfloat16 vectors, the logarithm of the decay, chunks of 16, all rows at one position and every token
present; keys of 64, 96, 128 or 256 channels, and values of a multiple of 16, for gradients of 32.
"""

import torch

from .. import _ops
from ._calls import Arrays, check_rule, check_shape, check_shapes, chunk_count
from ._torch_gpu import (
    CHUNK, allocator, check_texts, check_values, columns, floats, packed, pass_on, place, rows, texts,
)  # fmt: skip


def kept_floats(batch, time, heads, keys, values, position):
    """Room for what backward needs of the forward pass; the extension checks that it is enough."""
    tiles = (position % CHUNK + time + CHUNK - 1) // CHUNK
    lines = lambda numbers: (2 * numbers + 127) // 128 * 32  # noqa: E731  # of bfloat16, in floats
    states, vectors = batch * heads * (tiles + 1) * values * keys, batch * heads * tiles * 2 * CHUNK * values
    return 2 * lines(states) + lines(vectors)


def keeps(cu_seqlens, keep):
    return keep and not cu_seqlens


def _expect_bfloat16(v, rule):
    if v.dtype != torch.bfloat16:
        raise NotImplementedError(f"r, k, v: expected torch.bfloat16 on a GPU for the rule {rule}, found {v.dtype}")


def _checked(arrays, position, cu_seqlens, chunk, rule):
    """The inputs r, k, v, the logarithm of w, beta, tau, state, packed; and w."""
    r, w, k, v, a, b, beta, tau, state, mask, neutralize = arrays
    check_rule(rule)
    _expect_bfloat16(v, rule)
    if chunk != CHUNK:
        raise NotImplementedError(f"chunk: expected {CHUNK} on a GPU for the rule {rule}, found {chunk}")
    check_texts(v, mask, neutralize, position, cu_seqlens)
    batch, time, heads, _ = v.shape
    if k.ndim != 4 or k.shape[2] < 1 or heads % k.shape[2]:
        raise ValueError(f"k: expected heads that divide the {heads} of v, found shape {tuple(k.shape)}")
    check_shapes(rule, Arrays(*arrays), cu_seqlens)
    if rule == "deltanet" and w is not None:
        raise ValueError("w: expected none for the rule deltanet")
    if tau is not None:
        check_shape("tau", tau, (batch, chunk_count(position, cu_seqlens, time, chunk), heads))
    check_values(w, tau, (-2**-149, "decays from 0 to 1"))
    logarithm = None if w is None else torch.log(w)
    return [None if x is None else packed(x) for x in (r, k, v, logarithm, beta, tau, state)]


def _sizes(r, v, count, start):
    return v.shape[0], count, r.shape[2], v.shape[2], r.shape[3], v.shape[3], start


def _parts(arrays, tokens, chunks, states):
    *vectors, tau, state = arrays
    return (*(columns(x, tokens) for x in vectors), columns(tau, chunks), rows(state, states))


def forward(*arguments):
    arrays, (position, cu_seqlens, chunk, rule, _, keep) = arguments[:11], arguments[11:]
    inputs = _checked(arrays, position, cu_seqlens, chunk, rule)
    r, _, v, *_, state = inputs
    batch, time, heads, values = v.shape
    y = torch.empty_like(v)
    final = v.new_empty((len(cu_seqlens) - 1 if cu_seqlens else batch, heads, values, r.shape[3]), dtype=torch.float32)
    start = position[0] if position else 0
    kept = final.new_empty(kept_floats(batch, time, heads, r.shape[3], values, start)) if keeps(cu_seqlens, keep) else None
    device, stream = place(v.device)
    for tokens, chunks, states, start, count in texts(time, position, cu_seqlens, chunk):
        if count == 0 or batch * heads == 0:
            pass_on(final, state, states)
            continue
        _ops.gpu_gated_forward(
            device, stream, allocator(v), rule, _sizes(r, v, count, start), _parts(inputs, tokens, chunks, states),
            (columns(y, tokens), rows(final, states), rows(kept, None)), floats(kept),
        )  # fmt: skip
    return y, final, kept


def backward(dy, dstate, *arguments):
    arrays, (position, cu_seqlens, chunk, rule, _, kept, wanted) = arguments[:11], arguments[11:]
    inputs = _checked(arrays, position, cu_seqlens, chunk, rule)
    r, _, v, *_ = inputs
    dy = packed(dy)
    dstate = None if dstate is None else packed(dstate)
    gradients = [None if x is None else torch.empty_like(x) for x in inputs]
    dinitial = gradients[-1]
    device, stream = place(v.device)
    for tokens, chunks, states, start, count in texts(v.shape[1], position, cu_seqlens, chunk):
        if count == 0 or v.shape[0] * v.shape[2] == 0:
            pass_on(dinitial, dstate, states)
            continue
        _ops.gpu_gated_backward(
            device, stream, allocator(v), rule, _sizes(r, v, count, start), _parts(inputs, tokens, chunks, states),
            (columns(dy, tokens), rows(dstate, states), rows(kept, None)), floats(kept),
            _parts(gradients, tokens, chunks, states),
        )  # fmt: skip
    dr, dk, dv, dlogarithm, dbeta, dtau, dinitial = gradients
    w = arrays[1]
    # What a decay of 0 would change is not known from its logarithm: 0.
    dw = None if w is None else torch.where(w > 0, dlogarithm / w, 0)
    found = [dr, dw, dk, dv, None, None, dbeta, dtau, dinitial]
    return [x if want else None for x, want in zip(found, wanted)]
