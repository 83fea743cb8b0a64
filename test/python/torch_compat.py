"""The names of other packages, against their own formulas; and the check of gradients finds planted faults."""

import numpy as np
import pytest
from cases import relative_error
from torch_ops import written_out

torch = pytest.importorskip("torch", reason="torch is not installed")

from deltasane import check_gradients  # noqa: E402
from deltasane.compat import fla, patch_fla, rwkv_lm, rwkv_ops  # noqa: E402


def vectors(time=32, heads=2, seed=0):
    """r, k, v, kappa, rate in the range of a model's, in double."""
    random = torch.Generator().manual_seed(seed)
    r, k, v, kappa, rate = (torch.randn(1, time, heads, 64, generator=random, dtype=torch.float64) for _ in range(5))
    return 0.1 * r, 0.1 * k, v, torch.nn.functional.normalize(kappa, dim=-1), torch.sigmoid(rate)


def truth(r, decay, k, v, kappa, rate, tau=1e30, state=None):
    bound = torch.full((1, r.shape[1] // 16, r.shape[2]), tau, dtype=torch.float64)
    zero = torch.zeros(1, r.shape[2], 64, 64, dtype=torch.float64)
    return written_out(r, decay, k, v, -kappa, kappa * rate, bound, zero if state is None else state)


def single(*arrays):
    return [x.float() for x in arrays]


@pytest.mark.parametrize("name,decay", [
    ("RUN_CUDA_RWKV7g", lambda w: torch.exp(-torch.exp(w))),
    ("RWKV7_CLAMPW_CUDA", lambda w: torch.exp(-np.exp(-0.5) * torch.sigmoid(w))),
])  # fmt: skip
def test_rwkv_lm(name, decay):
    r, k, v, kappa, rate = vectors()
    w = -torch.randn(r.shape, dtype=torch.float64).abs() - 1
    flat = [x.reshape(1, 32, 128) for x in single(r, w, k, v, -kappa, kappa * rate)]
    y = getattr(rwkv_lm, name)(*flat)
    expected = truth(r, decay(w), k, v, kappa, rate)[0].reshape(1, 32, 128)
    assert relative_error(y, expected) < 1e-6
    low = getattr(rwkv_lm, name)(*(x.bfloat16() for x in flat))
    assert low.dtype == torch.bfloat16 and relative_error(low.float(), expected) < 0.02
    with pytest.raises(ValueError, match="expected a multiple of 64 channels, found 100"):
        getattr(rwkv_lm, name)(*(x[..., :100] for x in flat))


def test_fla():
    r, k, v, kappa, rate = vectors()
    log_w = -torch.rand(r.shape, dtype=torch.float64)
    state = torch.randn(1, 2, 64, 64, dtype=torch.float64)
    y, final = truth(r, log_w.exp(), k, v, kappa, rate, state=state)
    turned = state.float().transpose(-1, -2)
    given = single(r, log_w, k, v, -kappa, kappa * rate)
    found = fla.chunk_rwkv7(*given, initial_state=turned, output_final_state=True)
    assert relative_error(found[0], y) < 1e-6 and relative_error(found[1].transpose(-1, -2), final) < 1e-6
    assert fla.chunk_rwkv7(*given)[1] is None
    scaled, _ = fla.fused_recurrent_rwkv7(*given, initial_state=turned)
    assert relative_error(scaled, y / 8) < 1e-6
    multiplied, _ = fla.fused_mul_recurrent_rwkv7(*single(r, log_w, k, v, kappa, rate), initial_state=turned)
    assert relative_error(multiplied, y) < 1e-6
    bounded, _ = fla.chunk_rwkv7(*given, initial_state=turned, tau=1.5)
    assert relative_error(bounded, truth(r, log_w.exp(), k, v, kappa, rate, 1.5, state)[0]) < 1e-6
    with pytest.raises(ValueError, match="cp_context"):
        fla.chunk_rwkv7(*given, cp_context=1)
    with pytest.raises(ValueError, match="reverse"):
        fla.fused_mul_recurrent_rwkv7(*given, reverse=True)


def test_rwkv_ops():
    r, k, v, kappa, rate = vectors()
    w = torch.randn(r.shape, dtype=torch.float64) - 3
    y, final = truth(r, torch.exp(-torch.exp(w)), k, v, kappa, rate, 1.5)
    given = single(r, w, k, v, -kappa, kappa * rate)
    tau = torch.full((1, 2, 2), 1.5)
    found = rwkv_ops.generalized_delta_rule_sane(*given, tau)
    assert relative_error(found[0], y) < 1e-6 and relative_error(found[1], final) < 1e-6
    first = [x.transpose(1, 2) for x in given]
    alone = rwkv_ops.generalized_delta_rule_sane(*first, tau, output_final_state=False, head_first=True)
    assert torch.equal(alone.transpose(1, 2), found[0])
    unmasked = rwkv_ops.generalized_delta_rule_sane(*given, tau, mask=torch.zeros(1, 2))
    free = truth(r, torch.exp(-torch.exp(w)), k, v, kappa, rate)
    assert relative_error(unmasked[1], free[1]) < 1e-6


def test_patch_needs_fla():
    try:
        import fla.layers.rwkv7  # noqa: F401
    except Exception:
        with pytest.raises(ImportError):
            patch_fla()


def test_check_finds_nothing_in_the_operator(capsys):
    assert check_gradients.main(["deltasane", "--shape", "1,32,1,16", "--tau", "1.5"]) == 0
    assert "all as exact as rounding allows" in capsys.readouterr().out


def transposed_derivative(r, w, k, v, a, b, tau, state):
    """A published fault: at a boundary the derivative of tanh is taken at the transposed entry."""

    class Faulty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, s, t):
            ctx.save_for_backward(s, t)
            return t * torch.tanh(s / t)

        @staticmethod
        def backward(ctx, d):
            s, t = ctx.saved_tensors
            u = (s / t).transpose(-1, -2)
            return d * (1 - torch.tanh(u) ** 2), (d * (torch.tanh(u) - u * (1 - torch.tanh(u) ** 2))).sum((-1, -2), True)

    ys = []
    for t in range(r.shape[1]):
        sa = state @ a[:, t, :, :, None]
        state = state * w[:, t, :, None, :] + sa * b[:, t, :, None, :] + v[:, t, :, :, None] * k[:, t, :, None, :]
        ys.append((state @ r[:, t, :, :, None])[..., 0])
        if (t + 1) % 16 == 0:
            state = Faulty.apply(state, tau[:, t // 16, :, None, None])
    return torch.stack(ys, 1), state


def test_check_finds_the_published_fault():
    found, plain = check_gradients.errors(
        transposed_derivative, tau=1.5, on_state=False, dtype=torch.float32, shape=(1, 32, 1, 16)
    )
    assert found["y"] < 10 * plain["y"] and found["dr"] < 10 * plain["dr"]
    assert found["dv"] > 0.01 and found["da"] > 0.01 and found["dtau"] > 0.01
