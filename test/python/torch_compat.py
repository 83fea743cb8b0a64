"""The names of other packages, against their own formulas; and the check of gradients finds planted faults."""

import ast
import inspect
import os

import numpy as np
import pytest
from cases import check_close
from torch_ops import written_out

torch = pytest.importorskip("torch", reason="torch is not installed")

from deltasane import check_gradients  # noqa: E402
from deltasane.compat import fla, patch_fla, rwkv_lm, rwkv_ops  # noqa: E402


def vectors(time=32, heads=2, seed=0):
    """r, k, v, kappa, rate in the range of a model's, in float."""
    random = torch.Generator().manual_seed(seed)
    r, k, v, kappa, rate = (torch.randn(1, time, heads, 64, generator=random) for _ in range(5))
    return 0.1 * r, 0.1 * k, v, torch.nn.functional.normalize(kappa, dim=-1), torch.sigmoid(rate)


def plain_and_truth(decay, r, w, k, v, a, b, tau=1e30, state=None):
    """(y, state) of the recurrence written out, in float and in double; decay makes decays of w."""
    found = []
    for dtype in (torch.float32, torch.float64):
        r_, w_, k_, v_, a_, b_ = (x.to(dtype) for x in (r, w, k, v, a, b))
        bound = torch.full((1, r.shape[1] // 16, r.shape[2]), tau, dtype=dtype)
        begin = torch.zeros(1, r.shape[2], 64, 64, dtype=dtype) if state is None else state.to(dtype)
        found.append(written_out(r_, decay(w_), k_, v_, a_, b_, bound, begin))
    return found


def exp_exp(w):
    return torch.exp(-torch.exp(w))


def check_both(found, expected, scale=1):
    for name, x, p, t in zip(("y", "state"), found, *expected):
        if x is not None:
            check_close(name, x, p * scale, t * scale)


@pytest.mark.parametrize("name,decay", [
    ("RUN_CUDA_RWKV7g", exp_exp), ("RWKV7_CLAMPW_CUDA", lambda w: torch.exp(-np.exp(-0.5) * torch.sigmoid(w))),
])  # fmt: skip
def test_rwkv_lm(name, decay):
    r, k, v, kappa, rate = vectors()
    given = [r, -torch.randn(r.shape).abs() - 1, k, v, -kappa, kappa * rate]
    flat = [x.reshape(1, 32, 128) for x in given]
    y = getattr(rwkv_lm, name)(*flat).reshape(v.shape)
    check_both((y, None), plain_and_truth(decay, *given))
    rounded = [x.bfloat16() for x in given]
    low = getattr(rwkv_lm, name)(*(x.reshape(1, 32, 128) for x in rounded)).reshape(v.shape)
    (plain, _), (truth, _) = plain_and_truth(decay, *rounded)
    assert low.dtype == torch.bfloat16
    check_close("y", low.float(), plain.bfloat16().float(), truth)
    with pytest.raises(ValueError, match="expected a multiple of 64 channels, found 100"):
        getattr(rwkv_lm, name)(*(x[..., :100] for x in flat))


def test_rwkv_lm_beside_its_own_formula():
    """The plain operator of a checkout of RWKV-LM, cut out of the script that has it."""
    folder = os.environ.get("DELTASANE_RWKV_LM", "")
    if not folder:
        pytest.skip("DELTASANE_RWKV_LM does not name a checkout of RWKV-LM")
    with open(os.path.join(folder, "RWKV-v7", "rwkv_v7_demo.py"), encoding="utf-8") as file:
        script = ast.parse(file.read())
    (found,) = [n for n in ast.walk(script) if isinstance(n, ast.FunctionDef) and n.name == "RWKV7_OP" and len(n.body) > 2]
    space = {"torch": torch, "HEAD_SIZE": 64, "DTYPE": torch.float32}
    exec(compile(ast.Module([found], []), "rwkv_v7_demo.py", "exec"), space)
    r, k, v, kappa, rate = vectors()
    given = [r, -torch.randn(r.shape).abs() - 1, k, v, -kappa, kappa * rate]
    flat = [x.reshape(1, 32, 128) for x in given]
    plain = space["RWKV7_OP"](*flat)
    truth = plain_and_truth(exp_exp, *given)[1][0].reshape(1, 32, 128)
    check_close("y", rwkv_lm.RUN_CUDA_RWKV7g(*flat), plain, truth)


def fla_case():
    r, k, v, kappa, rate = vectors()
    log_w = -torch.rand(r.shape, generator=torch.Generator().manual_seed(1))
    return [r, log_w, k, v, -kappa, kappa * rate], torch.randn(1, 2, 64, 64), (kappa, rate)


def test_fla():
    given, state, (kappa, rate) = fla_case()
    expected = plain_and_truth(torch.exp, *given, state=state)
    turned = state.transpose(-1, -2)
    back = lambda final: final.transpose(-1, -2)  # noqa: E731
    y, final = fla.chunk_rwkv7(*given, initial_state=turned, output_final_state=True)
    check_both((y, back(final)), expected)
    assert fla.chunk_rwkv7(*given)[1] is None
    scaled, _ = fla.fused_recurrent_rwkv7(*given, initial_state=turned)
    check_both((scaled, None), expected, 1 / 8)
    multiplied, _ = fla.fused_mul_recurrent_rwkv7(*given[:4], kappa, rate, initial_state=turned)
    check_both((multiplied, None), expected)
    bounded, _ = fla.chunk_rwkv7(*given, initial_state=turned, tau=1.5)
    check_both((bounded, None), plain_and_truth(torch.exp, *given, tau=1.5, state=state))
    with pytest.raises(ValueError, match="cp_context"):
        fla.chunk_rwkv7(*given, cp_context=1)
    with pytest.raises(ValueError, match="reverse"):
        fla.fused_mul_recurrent_rwkv7(*given, reverse=True)


def real_fla(name):
    """A module of flash-linear-attention; its kernels need a GPU, its formulas do not."""
    return pytest.importorskip(f"fla.{name}", reason="flash-linear-attention is not installed", exc_type=Exception)


@pytest.mark.filterwarnings("ignore")
def test_fla_beside_the_package():
    """Its parameters are taken, in its order; its plain recurrence gives the same numbers and states."""
    theirs = real_fla("ops.rwkv7")
    for name in ("chunk_rwkv7", "fused_recurrent_rwkv7", "fused_mul_recurrent_rwkv7"):
        own, original = (list(inspect.signature(f).parameters.values()) for f in (getattr(fla, name), getattr(theirs, name)))
        original = [p for p in original if p.kind is not inspect.Parameter.VAR_KEYWORD]
        assert [(p.name, p.default) for p in own[: len(original)]] == [(p.name, p.default) for p in original], name
    formula = real_fla("ops.generalized_delta_rule.dplr.naive").dplr_recurrence
    given, state, _ = fla_case()
    turned = state.transpose(-1, -2)
    r, w, k, v, a, b = (x.transpose(1, 2) for x in given)  # head first there, and r is scaled
    plain_y, plain_state = formula(r * 8, k, v, a, b, w, initial_state=turned)
    truth_y, truth_state = plain_and_truth(torch.exp, *given, state=state)[1]
    y, final = fla.chunk_rwkv7(*given, initial_state=turned, output_final_state=True)
    check_close("y", y, plain_y.transpose(1, 2), truth_y)
    check_close("state", final, plain_state, truth_state.transpose(-1, -2))


@pytest.mark.filterwarnings("ignore")
def test_patch_of_the_package(monkeypatch):
    layers = real_fla("layers.rwkv7")
    for name in ("chunk_rwkv7", "fused_mul_recurrent_rwkv7"):
        monkeypatch.setattr(layers, name, getattr(layers, name))  # put back at the end
    patch_fla(tau=1.5)
    given, state, _ = fla_case()
    y, _ = layers.chunk_rwkv7(*given)
    check_both((y, None), plain_and_truth(torch.exp, *given, tau=1.5))
    with pytest.raises(NotImplementedError, match="initial_state: expected none with tau"):
        layers.chunk_rwkv7(*given, initial_state=state)


def test_rwkv_ops():
    r, k, v, kappa, rate = vectors()
    given = [r, torch.randn(r.shape) - 3, k, v, -kappa, kappa * rate]
    tau = torch.full((1, 2, 2), 1.5)
    found = rwkv_ops.generalized_delta_rule_sane(*given, tau)
    check_both(found, plain_and_truth(exp_exp, *given, tau=1.5))
    first = [x.transpose(1, 2) for x in given]
    alone = rwkv_ops.generalized_delta_rule_sane(*first, tau, output_final_state=False, head_first=True)
    assert torch.equal(alone.transpose(1, 2), found[0])
    unmasked = rwkv_ops.generalized_delta_rule_sane(*given, tau, mask=torch.zeros(1, 2))
    check_both(unmasked, plain_and_truth(exp_exp, *given))


def test_patch_needs_fla():
    try:
        import fla.layers.rwkv7  # noqa: F401
    except Exception:
        with pytest.raises(ImportError):
            patch_fla()


def test_check_finds_nothing_in_the_operator(capsys):
    assert check_gradients.main(["deltasane", "--shape", "1,32,1,16", "--tau", "1.5"]) == 0
    assert "all as exact as rounding allows" in capsys.readouterr().out


def test_rounding_of_bfloat16_includes_the_gradient_of_w():
    own = check_gradients._own("decay")
    settings = {"tau": 3, "on_state": True, "shape": (1, 32, 1, 16)}
    _, single = check_gradients.errors(own, dtype=torch.float32, **settings)
    found, low = check_gradients.errors(own, dtype=torch.bfloat16, **settings)
    assert low["dw"] > 2**8 * single["dw"] and low["dtau"] < 2**8 * single["dtau"]
    assert found["dw"] <= 2 * low["dw"]


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
