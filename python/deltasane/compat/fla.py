"""Flash-linear-attention's RWKV-7 functions, of fla-core 0.6: w is the logarithm of the decay, states are (key, value).

tau and position are added: SANE, as in deltasane.ops.rwkv7. The final state is None unless it is asked for.

>>> import torch
>>> x = torch.full((1, 20, 2, 64), 0.1)
>>> y, state = chunk_rwkv7(x, -x, x, x, -x, x, output_final_state=True, tau=2.0)
>>> state.shape
torch.Size([1, 2, 64, 64])
"""

from .. import ops


def _run(r, w, k, v, a, b, scale, initial_state, output_final_state, cu_seqlens, tau, position):
    state = None if initial_state is None else initial_state.float().transpose(-1, -2)
    y, final = ops.rwkv7(
        r if scale == 1 else r * scale, w.float(), k, v, a, b, decay="log", state=state, cu_seqlens=cu_seqlens,
        tau=tau, position=position,
    )  # fmt: skip
    return y, final.transpose(-1, -2).contiguous() if output_final_state else None


def chunk_rwkv7(
    r, w, k, v, a, b, scale=1.0, initial_state=None, output_final_state=False, cu_seqlens=None, cu_seqlens_cpu=None,
    safe_gate=False, chunk_size=None, disable_recompute=False, cp_context=None, lower_bound=None, *, tau=None,
    position=0,
):  # fmt: skip
    """Of no meaning here, and accepted: safe_gate, chunk_size, disable_recompute, lower_bound."""
    if cp_context is not None:
        raise ValueError("cp_context: expected none, as sequences are not split over devices here")
    texts = cu_seqlens if cu_seqlens_cpu is None else cu_seqlens_cpu
    return _run(r, w, k, v, a, b, scale, initial_state, output_final_state, texts, tau, position)


def fused_recurrent_rwkv7(
    r, w, k, v, a, b, scale=None, initial_state=None, output_final_state=True, cu_seqlens=None, *, tau=None, position=0
):
    """scale None is 1 / sqrt(channels), as there."""
    scale = r.shape[-1] ** -0.5 if scale is None else scale
    return _run(r, w, k, v, a, b, scale, initial_state, output_final_state, cu_seqlens, tau, position)


def fused_mul_recurrent_rwkv7(
    r, w, k, v, kk, a, scale=1.0, initial_state=None, output_final_state=False, reverse=False, cu_seqlens=None, *,
    tau=None, position=0,
):  # fmt: skip
    """With kappa and the rate a: S <- S diag(exp(w)) - (S kk) (kk a)' + v k'."""
    if reverse:
        raise ValueError("reverse: expected False, as the recurrence runs forward only")
    scale = r.shape[-1] ** -0.5 if scale is None else scale
    return _run(r, w, k, v, -kk, kk * a, scale, initial_state, output_final_state, cu_seqlens, tau, position)
