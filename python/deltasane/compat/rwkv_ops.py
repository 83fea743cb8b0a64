"""rwkv_ops' SANE operator, of rwkv_ops 0.11: the decay is exp(-exp(w)), states are (value, key).

The number of tokens need not be a multiple of the chunk, the final state is also returned without a
mask, and the gradients are those of the loss: theirs of tau, v, a and of the final state are wrong
in 0.11.3 (docs/python.md).

>>> import torch
>>> x = torch.full((1, 32, 2, 64), 0.1)
>>> y, state = generalized_delta_rule_sane(x, x, x, x, -x, x, torch.full((1, 2, 2), 2.0))
>>> state.shape
torch.Size([1, 2, 64, 64])
"""

from .. import ops


def generalized_delta_rule_sane(
    r, w, k, v, a, b, tau, mask=None, initial_state=None, output_final_state=True, head_first=False, chunk_size=16
):
    """mask: (batch, chunks); a chunk where it is above 0 is neutralized."""
    arrays = [x.swapaxes(1, 2) if head_first else x for x in (r, w, k, v, a, b)]
    arrays[1] = arrays[1].float()
    state = initial_state
    if state is not None and state.shape[0] == 1:
        state = state.expand(r.shape[0], *state.shape[1:])
    chunks = None if mask is None else mask > 0
    y, final = ops.rwkv7(*arrays, tau=tau.float(), state=state, decay="rwkv", neutralize=chunks, chunk=chunk_size)
    y = y.swapaxes(1, 2) if head_first else y
    return (y, final) if output_final_state else y
