"""The operator on a GPU: exact gradients, the caller's stream and memory, graphs, and no waiting."""

import numpy as np
import pytest
from cases import random_case

torch = pytest.importorskip("torch", reason="torch is not installed")

from deltasane import _ops, check_gradients, ops  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device"),
    pytest.mark.skipif(not _ops.cuda, reason="this build has no CUDA"),
]


def case(batch=2, time=64, heads=4, dtype=torch.bfloat16, grad=True, seed=0):
    found = {}
    for name, x in random_case(batch, time, heads, 64, seed=seed).items():
        kind = torch.float32 if name in ("w", "tau", "state") else dtype
        found[name] = torch.from_numpy(x).cuda().to(kind).requires_grad_(grad)
    return found


@pytest.mark.parametrize("tau", [1.5, 3, 8])
@pytest.mark.parametrize("on_state", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients(tau, on_state, dtype):
    """Within twice plain rounding; in bfloat16 the results that are float32 are compared with the inputs' rounding."""
    function = lambda r, w, k, v, a, b, tau, state: ops.rwkv7(r, w, k, v, a, b, tau=tau, state=state)  # noqa: E731
    found, plain = check_gradients.errors(function, tau=tau, on_state=on_state, dtype=dtype, device="cuda")
    for name in check_gradients.COLUMNS:
        rounding = max(plain[name], plain["y"]) if dtype == torch.bfloat16 else plain[name]
        assert found[name] <= 2 * rounding + 1e-6, (name, found[name], plain[name])


@pytest.mark.parametrize("time", [1, 15, 16, 17, 35, 4097])
def test_any_length_is_near_the_cpu(time):
    given = case(1, time, 2, torch.float32, grad=False)
    y, state = ops.rwkv7(**given)
    expected = ops.rwkv7(**{n: x.cpu() for n, x in given.items()})
    for x, e in zip((y, state), expected):
        assert ((x.cpu() - e).norm() / e.norm()).item() < 1e-5


def test_texts_are_as_if_alone():
    given = case(1, 100, 2)
    ends = [0, 40, 40, 100]
    given["state"] = torch.zeros(3, 2, 64, 64, device="cuda", requires_grad=True)
    given["tau"] = torch.full((1, 5, 2), 2.0, device="cuda", requires_grad=True)
    y, state = ops.rwkv7(**given, cu_seqlens=ends)
    (y.float().square().sum() + state.square().sum()).backward()
    one = {n: x.detach()[:, 40:] for n, x in given.items() if n not in ("tau", "state")}
    y1, state1 = ops.rwkv7(**one, tau=2.0)
    assert torch.equal(y[:, 40:], y1) and torch.equal(state[2:], state1)
    assert given["tau"].grad.abs().sum() > 0


def test_kept_states_change_nothing():
    found = []
    for keep in (True, False):
        given = case()
        y, state = ops.rwkv7(**given, keep=keep)
        found.append(torch.autograd.grad(y.float().square().sum() + state.sum(), list(given.values())))
    assert all(torch.equal(x, y) for x, y in zip(*found))


def step(given):
    y, state = ops.rwkv7(**given)
    return torch.autograd.grad(y.float().square().sum() + state.square().sum(), list(given.values()))


def test_is_captured_in_a_graph():
    given = case()
    expected = [x.clone() for x in step(given)]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step(given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = step(given)
    for x in results:
        x.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(x, y) for x, y in zip(results, expected))


def test_streams_do_not_disturb_each_other():
    givens = [case(seed=i) for i in range(4)]
    expected = [step(x) for x in givens]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in givens]
    found = []
    for stream, given in zip(streams, givens):
        with torch.cuda.stream(stream):
            found.append(step(given))
    torch.cuda.synchronize()
    for x, y in zip(found, expected):
        assert all(torch.equal(p, q) for p, q in zip(x, y))


def test_memory_stays_constant_and_nothing_waits():
    given = case(2, 512, 4)
    step(given)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(100):
            step(given)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_allocated() == before


def test_opcheck_and_compile():
    given = case()
    order = ("r", "w", "k", "v", "a", "b")
    arguments = (*(given[n] for n in order), None, given["tau"], given["state"], None, None, [], [], 16, "generalized", False)
    torch.library.opcheck(torch.ops.deltasane.delta_rule.default, (*arguments, True))
    compiled = torch.compile(lambda **x: ops.rwkv7(**x), fullgraph=True)
    assert torch.equal(compiled(**given)[0], ops.rwkv7(**given)[0])


def test_misuse():
    given = case(grad=False)
    for error, text, changed in (
        (ValueError, "k: expected a tensor on cuda:0 like r, found one on cpu", {"k": given["k"].cpu()}),
        (TypeError, "state: expected torch.float32", {"state": given["state"].bfloat16()}),
        (NotImplementedError, "mask, neutralize", {"mask": torch.ones(2, 64, dtype=torch.bool, device="cuda")}),
        (ValueError, "tau: expected shape", {"tau": given["tau"][:, :1]}),
    ):
        with pytest.raises(error, match=text):
            ops.rwkv7(**dict(given, **changed))
    later = {n: x.requires_grad_() for n, x in case(1, 20, 1).items()}
    later["tau"] = torch.full((1, 1, 1), 2.0, device="cuda")
    y, _ = ops.rwkv7(**later, position=3)
    with pytest.raises(ValueError, match="position: expected a multiple of 16"):
        y.sum().backward()
    assert np.isfinite(y.detach().float().cpu().numpy()).all()
