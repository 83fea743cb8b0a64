"""What the operator hands to the GPU's kernels: checked on the CPU, with CPU kernels in their place."""

import ctypes

import numpy as np
import pytest
from cases import random_case, random_gated_case

torch = pytest.importorskip("torch", reason="torch is not installed")

from deltasane import _ops, ops  # noqa: E402
from deltasane.ops import _torch_gated, _torch_gpu  # noqa: E402


class CpuKernels:
    """The calls of the GPU's kernels, by addresses of packed tensors, on the CPU. Memory is filled with NaN first."""

    def __init__(self):
        self.calls = 0

    def _arrays(self, batch, time, heads, position, chunk, addresses):
        vectors = (batch, time, heads, 64)
        chunks = (position + time) // chunk - position // chunk
        shapes = [vectors] * 6 + [(batch, chunks, heads), (batch, heads, 64, 64)]
        packed = [None if a is None else (a, s, tuple(np.cumprod([1, *s[:0:-1]])[::-1].tolist())) for a, s in zip(addresses, shapes)]
        return packed

    def gpu_forward(self, device, stream, allocate, is_bf16, batch, time, heads, position, chunk, inputs, results, kept):
        assert (device, stream, is_bf16) == (3, 77, False) and allocate(5)
        self.calls += 1
        *six, tau, state = self._arrays(batch, time, heads, position, chunk, inputs)
        shapes = [six[3][1:], ((batch, heads, 64, 64), (heads * 4096, 4096, 64, 1))]
        outputs = tuple((a, *s) for a, s in zip(results, shapes))
        _ops.forward("generalized", (*six, None, tau, state, None, None), [position] * batch, [], chunk, outputs)

    def gpu_backward(self, device, stream, allocate, is_bf16, batch, time, heads, position, chunk, inputs, given, kept, results):
        assert kept in (0, _torch_gpu.kept_floats(batch, time, heads))
        *six, tau, state = self._arrays(batch, time, heads, position, chunk, inputs)
        *found, dtau, dstate = self._arrays(batch, time, heads, position, chunk, results)
        dy = (given[0], *six[3][1:])
        dfinal = None if given[1] is None else (given[1], (batch, heads, 64, 64), (heads * 4096, 4096, 64, 1))
        arrays = (*six, None, tau, state, None, None)
        _ops.backward("generalized", arrays, [position] * batch, [], chunk, (dy, dfinal), (*found, None, dtau, dstate))


    def _gated(self, rule, sizes, addresses):
        """r, k, v, g, beta, tau, state as arrays."""
        batch, time, key_heads, heads, keys, values, position = sizes
        decays = (batch, time, heads, keys) if rule == "kda" else (batch, time, heads)
        chunks = (position + time) // 16 - position // 16
        shapes = [(batch, time, key_heads, keys)] * 2 + [(batch, time, heads, values), decays, (batch, time, heads)]
        shapes += [(batch, chunks, heads), (batch, heads, values, keys)]
        return [None if a is None else floats_at(a, s) for a, s in zip(addresses, shapes)]

    def _gated_call(self, rule, sizes, inputs):
        r, k, v, g, beta, tau, state = self._gated(rule, sizes, inputs)
        return dict(r=r, k=k, v=v, w=None if g is None else np.exp(g), beta=beta, tau=tau, state=state, rule=rule, position=sizes[-1])

    def gpu_gated_forward(self, device, stream, allocate, rule, sizes, inputs, results, kept):
        assert (device, stream) == (3, 77) and allocate(5)
        self.calls += 1
        call = self._gated_call(rule, sizes, inputs)
        y, state = ops.delta_rule(**call)
        floats_at(results[0], y.shape)[:], floats_at(results[1], state.shape)[:] = y, state

    def gpu_gated_backward(self, device, stream, allocate, rule, sizes, inputs, given, kept, results):
        call = self._gated_call(rule, sizes, inputs)
        shape = sizes[0], sizes[3], sizes[5], sizes[4]
        dy, dstate = floats_at(given[0], call["v"].shape), None if given[1] is None else floats_at(given[1], shape)
        d = ops.delta_rule_backward(dy, dstate=dstate, **call)
        dg = None if call["w"] is None else d.dw * call["w"]
        for to, x in zip(self._gated(rule, sizes, results), (d.dr, d.dk, d.dv, dg, d.dbeta, d.dtau, d.dstate)):
            if to is not None:
                to[:] = x


def floats_at(address, shape):
    if not address:
        return np.empty(shape, np.float32)
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), shape)


@pytest.fixture
def kernels(monkeypatch):
    found = CpuKernels()
    for module in (_torch_gpu, _torch_gated):
        monkeypatch.setattr(module, "_ops", found)
        monkeypatch.setattr(module, "place", lambda device: (3, 77))
    monkeypatch.setattr(_torch_gated, "_expect_bfloat16", lambda v, rule: None)
    return found


def arguments(case, position=(), cu_seqlens=(), rule="generalized", chunk=16):
    tensors = {n: torch.from_numpy(x) for n, x in case.items() if x is not None}
    order = ("r", "w", "k", "v", "a", "b", "beta", "tau", "state", "mask", "neutralize")
    return (*(tensors.get(n) for n in order), list(position), list(cu_seqlens), chunk, rule, False)


@pytest.mark.parametrize("kind", ["rows", "plain", "later", "texts"])
def test_parts_and_addresses(kernels, kind):
    case, settings = random_case(2, 35, 3, 64), {}
    if kind == "plain":
        case["tau"] = case["state"] = None
    if kind == "later":
        settings["position"] = [32, 32]
    if kind == "texts":
        case = random_case(1, 60, 2, 64, chunks=3)
        case["state"] = random_case(4, 1, 2, 64)["state"]
        settings = {"position": [0, 16, 0, 16], "cu_seqlens": [0, 17, 17, 20, 60]}
    given = arguments(case, **settings)
    y, final, kept = _torch_gpu.forward(*given, True)
    assert kernels.calls == (3 if kind == "texts" else 1)
    assert (kept is not None) == (kind != "texts")
    expected = ops.rwkv7(**case, **settings)
    assert np.array_equal(y.numpy(), expected[0]) and np.array_equal(final.numpy(), expected[1])
    dy, dstate = torch.randn_like(y), torch.randn_like(final)
    wanted = [x is not None for x in given[:9]]
    found = _torch_gpu.backward(dy, dstate, *given, kept, wanted)
    truth = ops.rwkv7_backward(dy.numpy(), **case, **settings, dstate=dstate.numpy())
    for want, x, t in zip(wanted, found, truth):
        assert not want or np.array_equal(x.numpy(), t)


def test_what_the_kernels_cannot_do_is_refused(kernels):
    case = random_case(2, 35, 3, 64)
    for text, given in (
        ("position: expected one for all rows", arguments(case, position=[0, 16])),
        ("mask, neutralize: expected none", arguments(dict(case, mask=np.ones((2, 35), np.uint8)))),
        ("heads of 64 channels", arguments(random_case(1, 5, 1, 32))),
    ):
        with pytest.raises(NotImplementedError, match=text):
            _torch_gpu.forward(*given, True)
    huge = {n: np.broadcast_to(x[:1, :1, :1], (1 << 11, 1 << 14, 1 << 6, 64)) for n, x in case.items() if n in ("r", "w", "k", "v", "a", "b")}
    for text, given in (
        ("v: expected fewer than 2.31 tokens times heads on a GPU, found 2147483648", arguments(huge)),
        ("tau: expected shape", arguments(dict(case, tau=case["tau"][:, :1]))),
        ("state: expected shape", arguments(dict(case, state=case["state"][:1]))),
        ("k: expected shape", arguments(dict(case, k=case["k"][:, 1:]))),
        ("b: expected shape .* found none", arguments(dict(case, b=None))),
        ("cu_seqlens: expected ascending", arguments(random_case(1, 5, 1, 64), cu_seqlens=[0, 4])),
    ):
        with pytest.raises(ValueError, match=text):
            _torch_gpu.forward(*given, True)


def test_tensors_are_handed_over_aligned_to_16_bytes(kernels, monkeypatch):
    seen = []
    run = kernels.gpu_forward
    monkeypatch.setattr(kernels, "gpu_forward", lambda *x: (seen.extend(a for a in x[9] if a is not None), run(*x)))
    case = random_case(2, 35, 3, 64)
    memory = {n: torch.zeros(x.size + 1)[1:].view(x.shape) for n, x in case.items()}
    given = arguments(case)
    shifted = [None if x is None else memory[n].copy_(x) for n, x in zip(("r", "w", "k", "v", "a", "b", "beta", "tau", "state"), given)]
    assert all(x is None or x.data_ptr() % 16 for x in shifted)
    y, _, _ = _torch_gpu.forward(*shifted, *given[9:], True)
    assert len(seen) == 8 and not any(address % 16 for address in seen)
    assert np.array_equal(y.numpy(), ops.rwkv7(**case)[0])


@pytest.mark.parametrize("kind", ["rows", "plain", "later", "texts"])
@pytest.mark.parametrize("rule", ["deltanet", "gated_deltanet", "kda"])
def test_parts_and_addresses_of_other_rules(kernels, rule, kind):
    """As on the CPU, with the decay that its logarithm, which is handed over, gives."""
    case, settings = random_gated_case(rule, time=35), {}
    if kind == "plain":
        case["tau"] = case["state"] = None
    if kind == "later":
        settings["position"] = [35]
        case["tau"] = np.concatenate([case["tau"]] * 2, 1)[:, :2]
    if kind == "texts":
        case["state"] = np.concatenate([case["state"]] * 4)
        settings = {"position": [0, 16, 0, 13], "cu_seqlens": [0, 17, 17, 20, 35]}
    given = arguments(case, rule=rule, **settings)
    y, final, kept = _torch_gated.forward(*given, True)
    assert kernels.calls == (3 if kind == "texts" else 1) and (kept is not None) == (kind != "texts")
    w, eps = case.get("w"), float(np.finfo(np.float32).eps)
    if w is not None:
        case["w"] = np.exp(torch.log(torch.from_numpy(w)).numpy())
        # A unit of the logarithm, and the three that numpy's exponential is within.
        assert (np.abs(case["w"] - w.astype(float)) <= eps * (3 + np.abs(np.log(w))) * w).all()
    expected = ops.delta_rule(**case, rule=rule, **settings)
    assert np.array_equal(y.numpy(), expected[0]) and np.array_equal(final.numpy(), expected[1])
    dy, dstate = torch.randn_like(y), torch.randn_like(final)
    wanted = [x is not None for x in given[:9]]
    found = _torch_gated.backward(dy, dstate, *given, kept, wanted)
    truth = ops.delta_rule_backward(dy.numpy(), **case, rule=rule, **settings, dstate=dstate.numpy())
    for name, want, x, t in zip(truth._fields, wanted, found, truth):
        assert (x is not None) == want
        if want and name == "dw":  # the gradient of the logarithm by the decay: a product and a quotient
            t = t.astype(float) * case["w"] / w
            assert (np.abs(x.numpy() - t) <= ((1 + eps / 2) ** 2 - 1) * np.abs(t)).all()
        elif want:
            assert np.array_equal(x.numpy(), t), name


def test_a_decay_of_0_has_a_finite_gradient(kernels):
    case = random_gated_case("gated_deltanet")
    case["w"][:, 3] = 0
    given = arguments(case, rule="gated_deltanet")
    y, final, kept = _torch_gated.forward(*given, True)
    dw = _torch_gated.backward(y, None, *given, kept, [x is not None for x in given[:9]])[1]
    assert torch.isfinite(dw).all() and (dw[:, 3] == 0).all() and (dw[:, 4] != 0).all()


def test_what_the_kernels_of_other_rules_cannot_do_is_refused(kernels, monkeypatch):
    case = random_gated_case("kda")
    for error, text, given in (
        (ValueError, "rule: expected generalized, deltanet", arguments(case, rule="gdn2")),
        (NotImplementedError, "chunk: expected 16 on a GPU", arguments(case, rule="kda", chunk=8)),
        (NotImplementedError, "mask, neutralize: expected none", arguments(dict(case, mask=np.ones((1, 35), np.uint8)), rule="kda")),
        (ValueError, "w: expected none for the rule deltanet", arguments(case, rule="deltanet")),
        (ValueError, r"w: expected shape \(1, 35, 4\), found \(1, 35, 4, 32\)", arguments(case, rule="gated_deltanet")),
        (ValueError, "k: expected heads that divide the 4 of v", arguments(dict(case, k=case["v"][:, :, :3]), rule="kda")),
        (ValueError, "beta: expected shape .* found none", arguments(dict(case, beta=None), rule="kda")),
        (ValueError, "state: expected shape", arguments(dict(case, state=case["state"][..., :3]), rule="kda")),
        (ValueError, "tau: expected shape", arguments(dict(case, tau=case["tau"][:, :1]), rule="kda")),
    ):
        with pytest.raises(error, match=text):
            _torch_gated.forward(*given, True)
    monkeypatch.undo()
    with pytest.raises(NotImplementedError, match="r, k, v: expected torch.bfloat16 on a GPU for the rule kda"):
        _torch_gated.forward(*arguments(case, rule="kda"), True)
