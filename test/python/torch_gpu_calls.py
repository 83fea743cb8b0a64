"""What the operator hands to the GPU's kernels: checked on the CPU, with CPU kernels in their place."""

import numpy as np
import pytest
from cases import random_case

torch = pytest.importorskip("torch", reason="torch is not installed")

from deltasane import _ops, ops  # noqa: E402
from deltasane.ops import _torch_gpu  # noqa: E402


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


@pytest.fixture
def kernels(monkeypatch):
    found = CpuKernels()
    monkeypatch.setattr(_torch_gpu, "_ops", found)
    monkeypatch.setattr(_torch_gpu, "_place", lambda device: (3, 77))
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
        ("rule: expected generalized", arguments(case, rule="kda")),
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
