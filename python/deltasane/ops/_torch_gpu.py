"""The operator on CUDA tensors: in torch's current stream, in memory that torch allocates, without a wait.

The kernels take RWKV-7's rule with heads of 64 channels, all rows at one position, every token present. Decays must be
above 0.545, as RWKV-7's are: the kernels divide by products of 16 of them. Neither that nor tau is looked at, because
the host would have to wait for it; with DELTASANE_CHECK=1 in the environment it waits, and looks.
"""

import os

import torch

from .. import _ops
from ._calls import Arrays, check_shape, check_shapes, chunk_count, chunks_ending

HEAD = 64
CHUNK = 16
LEAST_DECAY = 0.545
CHECKS_VALUES = os.environ.get("DELTASANE_CHECK", "0") not in ("", "0")
_STATE_FLOATS = HEAD * HEAD + 1


def keeps(position, cu_seqlens, chunk, keep):
    """Whether the forward pass keeps the states for the backward pass."""
    return keep and not cu_seqlens and chunk == CHUNK and all(p % CHUNK == 0 for p in position)


def kept_floats(batch, time, heads):
    """Room for the states before every 16 tokens and at the end; the extension checks that it is enough."""
    states = batch * heads * ((time + CHUNK - 1) // CHUNK + 1)
    return (states * _STATE_FLOATS + 31) // 32 * 32


def place(device):
    """The device's number, and torch's current stream on it, as torch.cuda.current_stream(device).cuda_stream."""
    return device.index, torch._C._cuda_getCurrentRawStream(device.index)


def allocator(like):
    """allocate(floats): the address of new memory, which lives as long as this function."""
    memory = []

    def allocate(floats):
        memory.append(torch.empty(floats, dtype=torch.float32, device=like.device))
        return memory[-1].data_ptr()

    return allocate


def check_values(w, tau, decays=(LEAST_DECAY, "decays above 0.545 and at most 1")):
    if not CHECKS_VALUES or torch.cuda.is_current_stream_capturing():
        return
    for name, x, least, most, kind in (
        ("w", w, decays[0], 1, decays[1]),
        ("tau", tau, 0, torch.finfo(torch.float32).max, "finite numbers above 0"),
    ):
        if x is None or x.numel() == 0:
            continue
        low, high = (bound.item() for bound in torch.aminmax(x))
        if not (least < low and high <= most):
            raise ValueError(
                f"{name}: expected {kind}, found {low:.6g} to {high:.6g}"
                + ("; where w is a logarithm or comes before an activation, say so with decay=" if name == "w" else "")
            )


def check_texts(v, mask, neutralize, position, cu_seqlens):
    """What the kernels of all rules ask for."""
    batch, time, heads, _ = v.shape
    if mask is not None or neutralize is not None:
        raise NotImplementedError("mask, neutralize: expected none on a GPU; use cu_seqlens, or tensors on the CPU")
    if batch * time * heads >= 2**31:
        raise ValueError(f"v: expected fewer than 2^31 tokens times heads on a GPU, found {batch * time * heads}; read the text in parts")
    if position and not cu_seqlens and len(set(position)) > 1:
        raise NotImplementedError("position: expected one for all rows on a GPU, found several; use cu_seqlens")
    if not cu_seqlens:
        return
    if batch != 1 or cu_seqlens[0] != 0 or cu_seqlens[-1] != time or sorted(cu_seqlens) != list(cu_seqlens):
        raise ValueError(f"cu_seqlens: expected ascending numbers from 0 to {time} and one row, found {cu_seqlens}")


def _checked(arrays, position, cu_seqlens, chunk):
    """The inputs r, w, k, v, a, b, tau, state, packed."""
    r, w, k, v, a, b, _, tau, state, mask, neutralize = arrays
    check_texts(v, mask, neutralize, position, cu_seqlens)
    batch, time, heads, channels = v.shape
    if channels != HEAD:
        raise NotImplementedError(f"v: expected heads of {HEAD} channels on a GPU, found {channels}")
    check_shape("k", k, v.shape)
    check_shapes("generalized", Arrays(*arrays), cu_seqlens)
    if tau is not None:
        check_shape("tau", tau, (batch, chunk_count(position, cu_seqlens, time, chunk), heads))
    check_values(w, tau)
    return [None if x is None else packed(x) for x in (r, w, k, v, a, b, tau, state)]


def packed(x):
    """The kernels read 16 bytes at once."""
    x = x.contiguous()
    return x if x.data_ptr() % 16 == 0 else x.clone()


def texts(time, position, cu_seqlens, chunk):
    """For each call of the kernels: which tokens, chunks and states (None: all), the position, and how many tokens."""
    if not cu_seqlens:
        yield None, None, None, position[0] if position else 0, time
        return
    first = 0
    for i, (begin, end) in enumerate(zip(cu_seqlens, cu_seqlens[1:])):
        start = position[i] if position else 0
        chunks = chunks_ending(start, end - begin, chunk)
        yield slice(begin, end), slice(first, first + chunks), slice(i, i + 1), start, end - begin
        first += chunks


def rows(x, which):
    """The address of rows of a packed tensor."""
    return None if x is None else x.data_ptr() if which is None else x[which].data_ptr()


def columns(x, which):
    """The address of a part of the second dimension: of all rows, or of the only one."""
    return None if x is None else x.data_ptr() if which is None else x[:, which].data_ptr()


def floats(kept):
    return 0 if kept is None else kept.numel()


def pass_on(to, given, states):
    """A text without tokens leaves its state, or the gradient of it, as it was given."""
    if to is not None:
        which = slice(None) if states is None else states
        to[which] = 0 if given is None else given[which]


def _parts(vectors, tokens, tau, chunks, state, states):
    return (*(columns(x, tokens) for x in vectors), columns(tau, chunks), rows(state, states))


def forward(*arguments):
    arrays, (position, cu_seqlens, chunk, _, _, keep) = arguments[:11], arguments[11:]
    *vectors, tau, state = _checked(arrays, position, cu_seqlens, chunk)
    v = vectors[3]
    batch, time, heads, _ = v.shape
    y = torch.empty_like(v)
    final = v.new_empty((len(cu_seqlens) - 1 if cu_seqlens else batch, heads, HEAD, HEAD), dtype=torch.float32)
    kept = final.new_empty(kept_floats(batch, time, heads)) if keeps(position, cu_seqlens, chunk, keep) else None
    device, stream = place(v.device)
    for tokens, chunks, states, start, count in texts(time, position, cu_seqlens, chunk):
        if count == 0 or batch * heads == 0:
            pass_on(final, state, states)
            continue
        _ops.gpu_forward(
            device, stream, allocator(v), v.dtype == torch.bfloat16, batch, count, heads, start, chunk,
            _parts(vectors, tokens, tau, chunks, state, states),
            (columns(y, tokens), rows(final, states), rows(kept, None)), floats(kept),
        )  # fmt: skip
    return y, final, kept


def backward(dy, dstate, *arguments):
    arrays, (position, cu_seqlens, chunk, _, _, kept, wanted) = arguments[:11], arguments[11:]
    *vectors, tau, state = inputs = _checked(arrays, position, cu_seqlens, chunk)
    v = vectors[3]
    batch, time, heads, _ = v.shape
    dy = packed(dy)
    dstate = None if dstate is None else packed(dstate)
    *gradients, dtau, dinitial = [None if x is None else torch.empty_like(x) for x in inputs]
    device, stream = place(v.device)
    for tokens, chunks, states, start, count in texts(time, position, cu_seqlens, chunk):
        if count == 0 or batch * heads == 0:
            pass_on(dinitial, dstate, states)
            continue
        _ops.gpu_backward(
            device, stream, allocator(v), v.dtype == torch.bfloat16, batch, count, heads, start, chunk,
            _parts(vectors, tokens, tau, chunks, state, states),
            (columns(dy, tokens), rows(dstate, states), rows(kept, None)), floats(kept),
            _parts(gradients, tokens, dtau, chunks, dinitial, states),
        )  # fmt: skip
    found = [*gradients, None, dtau, dinitial]
    return [x if want else None for x, want in zip(found, wanted)]
