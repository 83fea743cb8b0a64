"""RWKV-LM's functions: (batch, time, channel) in and out, heads of 64, no state.

>>> import torch
>>> x = torch.full((1, 20, 128), 0.1)
>>> RUN_CUDA_RWKV7g(x, x, x, x, -x, x).shape
torch.Size([1, 20, 128])
"""

from .. import ops

HEAD_SIZE = 64


def _run(r, w, k, v, a, b, decay, tau):
    batch, time, channels = r.shape
    if channels % HEAD_SIZE:
        raise ValueError(f"r: expected a multiple of {HEAD_SIZE} channels, found {channels}")
    heads = [x.reshape(batch, time, channels // HEAD_SIZE, HEAD_SIZE) for x in (r, w, k, v, a, b)]
    heads[1] = heads[1].float()
    return ops.rwkv7(*heads, decay=decay, tau=tau)[0].reshape(batch, time, channels)


def RUN_CUDA_RWKV7g(q, w, k, v, a, b, *, tau=None):  # noqa: N802
    """The decay is exp(-exp(w)). Any number of tokens. tau: SANE, (batch, chunks, head), (head) or a number."""
    return _run(q, w, k, v, a, b, "rwkv", tau)


def RWKV7_CLAMPW_CUDA(r, w, k, v, a, b, *, tau=None):  # noqa: N802
    """The decay is exp(-exp(-1/2) sigmoid(w)). Any number of tokens. tau: as above."""
    return _run(r, w, k, v, a, b, "clampw", tau)
