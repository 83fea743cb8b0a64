"""The operator on a GPU: exact gradients, the caller's stream and memory, graphs, and no waiting."""

import os
import subprocess
import sys

import numpy as np
import pytest
from cases import check_close, in_double, random_case, random_gated_case

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
    """Within twice plain rounding and a few units in the last place of float32, over a whole tensor."""
    function = lambda r, w, k, v, a, b, tau, state: ops.rwkv7(r, w, k, v, a, b, tau=tau, state=state)  # noqa: E731
    found, plain = check_gradients.errors(function, tau=tau, on_state=on_state, dtype=dtype, device="cuda")
    for name in check_gradients.COLUMNS:
        allowed = 2 * plain[name] + 4 * torch.finfo(torch.float32).eps
        assert found[name] <= allowed, (name, found[name], plain[name])


@pytest.mark.parametrize("time,position", [(1, 0), (15, 0), (16, 0), (17, 0), (35, 0), (35, 5), (4097, 0)])
def test_any_length_is_the_definition(time, position):
    rows = 4 if time < 100 else 1  # judged together: over few numbers plain arithmetic may be lucky
    numbers = random_case(rows, time, 2, 64, chunks=(position + time) // 16)
    given = {n: torch.from_numpy(x).cuda() for n, x in numbers.items()}
    found = ops.rwkv7(**given, position=position)
    plain = ops.reference.rwkv7(**numbers, position=position)
    truth = ops.reference.rwkv7(**in_double(numbers), position=position)
    for name, x, p, t in zip(("y", "state"), found, plain, truth):
        check_close(name, x.cpu(), p, t)


VECTORS = ("r", "k", "v")


def gated_case(rule, time, keys, values, chunks=None, seed=0):
    """As numpy arrays, with vectors that are numbers of bfloat16; and as tensors on the GPU."""
    numbers = random_gated_case(rule, time, 4, 2, keys, values, seed)
    if chunks is not None:
        numbers["tau"] = np.random.default_rng(seed).uniform(1, 2, (1, chunks, 4)).astype(np.float32)
    tensors = {n: torch.from_numpy(x).cuda().to(torch.bfloat16 if n in VECTORS else torch.float32) for n, x in numbers.items()}
    numbers.update((n, tensors[n].float().cpu().numpy()) for n in VECTORS)
    return numbers, {n: x.requires_grad_() for n, x in tensors.items()}


def check_like_the_kernels(name, found, plain, truth):
    """The rows of docs/numerics.md for the kernels of these rules."""
    found, plain, truth = (np.asarray(x, np.float64) for x in (found.detach().float().cpu(), plain, truth))
    is_state = name in ("state", "dstate")
    rounded = plain if is_state else torch.from_numpy(plain).bfloat16().double().numpy()
    largest = np.abs(truth).max()
    allowed = 2 * np.abs(rounded - truth).max() + 4 * np.finfo(np.float32).eps * largest
    allowed = allowed + largest * 2**-14 if is_state else allowed if name in ("y", "dv") else 2 * allowed
    error = np.abs(found - truth).max()
    assert found.shape == truth.shape and error <= allowed, f"{name}: expected at most {allowed}, found {error}"


@pytest.mark.parametrize("rule", ["deltanet", "gated_deltanet", "kda"])
@pytest.mark.parametrize("time,position,keys,values", [(70, 0, 64, 64), (70, 0, 128, 128), (41, 11, 64, 96), (1, 5, 128, 64)])
def test_other_rules_are_the_definition(rule, time, position, keys, values):
    numbers, given = gated_case(rule, time, keys, values, (position + time) // 16 - position // 16)
    settings = {"rule": rule, "position": position}
    plain, truth = ops.reference.delta_rule(**numbers, **settings), ops.reference.delta_rule(**in_double(numbers), **settings)
    rng = np.random.default_rng(1)
    dy = torch.from_numpy(rng.standard_normal(numbers["v"].shape)).cuda().bfloat16()
    dstate = rng.standard_normal(numbers["state"].shape).astype(np.float32)
    results = []
    for keep in (True, False):
        y, state = ops.delta_rule(**given, **settings, keep=keep)
        found = torch.autograd.grad((y, state), list(given.values()), (dy, torch.from_numpy(dstate).cuda()))
        results.append([y, state, *found])
        for name, x, p, t in zip(("y", "state"), (y, state), plain, truth):
            check_like_the_kernels(name, x, p, t)
    if time > 1:  # one token without kept states has a kernel of its own
        assert all(torch.equal(one, other) for one, other in zip(*results))
    dy = dy.float().cpu().numpy()
    plain = ops.reference.delta_rule_backward(dy, **numbers, **settings, dstate=dstate)._asdict()
    truth = ops.reference.delta_rule_backward(dy.astype(float), **in_double(numbers), **settings, dstate=dstate.astype(float))._asdict()
    for name, x in zip(given, found):
        w = numbers["w"] if name == "w" else 1  # the kernels have the gradient of its logarithm
        if numbers[name].size:
            check_like_the_kernels(f"d{name}", x * torch.as_tensor(w).cuda(), plain[f"d{name}"] * w, truth[f"d{name}"] * w)


def test_texts_of_other_rules_are_as_if_alone():
    _, given = gated_case("kda", 100, 64, 64, chunks=5)
    given["state"] = torch.zeros(3, 4, 64, 64, device="cuda", requires_grad=True)
    given["tau"] = torch.full((1, 5, 4), 2.0, device="cuda", requires_grad=True)
    y, state = ops.delta_rule(**given, rule="kda", cu_seqlens=[0, 40, 40, 100])
    (y.float().square().sum() + state.square().sum()).backward()
    one = {n: x.detach()[:, 40:] for n, x in given.items() if n not in ("tau", "state")}
    y1, state1 = ops.delta_rule(**one, rule="kda", tau=2.0)
    assert torch.equal(y[:, 40:], y1) and torch.equal(state[2:], state1) and given["w"].grad.abs().sum() > 0


def test_other_rules_pass_opcheck_and_are_refused_where_they_must():
    _, given = gated_case("kda", 40, 64, 64)
    order = ("r", "w", "k", "v", "a", "b", "beta", "tau", "state", "mask", "neutralize")
    arguments = (*(given.get(n) for n in order), [], [], 16, "kda", False)
    torch.library.opcheck(torch.ops.deltasane.delta_rule.default, (*arguments, False))
    # What is kept has room between its parts that nobody writes: it is not compared.
    tests = "test_schema", "test_autograd_registration", "test_faketensor"
    torch.library.opcheck(torch.ops.deltasane.delta_rule.default, (*arguments, True), test_utils=tests)
    for error, text, changed in (
        (NotImplementedError, "expected torch.bfloat16 on a GPU", {n: given[n].float() for n in VECTORS}),
        (ValueError, "beta: expected shape", {"beta": given["beta"][:, 1:]}),
        (ValueError, "keys|key channels", {n: given[n][..., :48] for n in ("r", "k", "w", "state")}),
        (ValueError, "value channels per head: expected a multiple of 16", {"v": given["v"][..., :40], "state": given["state"][:, :, :40]}),
    ):
        with pytest.raises(error, match=text):
            ops.delta_rule(**dict(given, **changed), rule="kda")


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


def test_states_are_kept_only_for_gradients():
    from deltasane.ops import _torch

    order = (*"rwkvab", "beta", "tau", "state", "mask", "neutralize")
    for grad, with_gradients, keep, expected in (
        (False, True, True, False), (True, True, True, True), (True, True, False, False), (False, False, True, True),
    ):  # fmt: skip
        arguments = *(case(grad=grad).get(n) for n in order), [], [], 16, "generalized", False, keep
        _, _, kept, has_gradients = _torch.calls.forward(arguments, with_gradients)
        assert (kept is not None) is expected and has_gradients is (grad and with_gradients)
    for grad, keep in ((False, True), (True, False), (True, True)):
        arrays = tuple(case(grad=grad).get(n) for n in order)
        _, _, *others = _torch.calls.run(arrays, 0, 16, "decay", keep)
        assert len(others) == 2 * grad and all((x is not None) is keep for x in others[:1])


def step(given):
    y, state = ops.rwkv7(**given)
    return torch.autograd.grad(y.float().square().sum() + state.square().sum(), list(given.values()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("time,position", [(7, 0), (16, 0), (35, 32), (64, 0)])
def test_usual_calls_have_the_bits_of_others(monkeypatch, dtype, time, position):
    """One call of the extension, and the general way: also for tensors that are not aligned to 16 bytes."""
    from deltasane.ops import _torch

    given = case(2, time, 4, dtype)
    results = []
    for way in ("direct", "shifted", "general"):
        with monkeypatch.context() as patch:
            if way == "general":
                patch.setattr(_torch, "calls", _ops.direct_torch_calls(None, False))
            if way == "direct":
                patch.setattr(_torch, "_general", None)
            inputs = given if way != "shifted" else {n: _shifted(x) for n, x in given.items()}
            y, state = ops.rwkv7(**inputs, position=position)
            loss = y.float().square().sum() + state.square().sum()
            results.append([y, state, *torch.autograd.grad(loss, list(inputs.values()))])
    for others in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(results[0], others))


def _shifted(x):
    memory = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view(x.shape)
    return memory.copy_(x.detach()).requires_grad_()


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


def test_a_number_as_tau_is_captured_and_does_not_wait():
    given = {n: x.detach() for n, x in case().items() if n != "tau"}
    expected = ops.rwkv7(**given, tau=2.0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = ops.rwkv7(**given, tau=2.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(x, y) for x, y in zip(found, expected))


def test_the_first_call_of_a_process_can_be_captured():
    text = """
import torch
from deltasane import ops
x = torch.full((1, 32, 1, 64), 0.1, device="cuda", dtype=torch.bfloat16)
w = torch.full((1, 32, 1, 64), 0.9, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y, state = ops.rwkv7(x, w, x, x, -x, x, tau=2.0)
graph.replay()
torch.cuda.synchronize()
assert torch.equal(y, ops.rwkv7(x, w, x, x, -x, x, tau=2.0)[0]) and y.abs().sum() > 0
"""
    subprocess.run([sys.executable, "-c", text], check=True)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="this machine has fewer than two CUDA devices")
def test_tensors_of_another_device_than_the_current():
    given = {n: x.detach() for n, x in case().items()}
    expected = step({n: x.requires_grad_() for n, x in given.items()})
    other = {n: x.detach().to("cuda:1").requires_grad_() for n, x in given.items()}
    found = step(other)
    assert torch.cuda.current_device() == 0 and all(x.device.index == 1 for x in found)
    assert all(torch.equal(x.cpu(), y.cpu()) for x, y in zip(found, expected))
    with pytest.raises(ValueError, match="k: expected a tensor on cuda:0 like r, found one on cuda:1"):
        ops.rwkv7(**dict(given, k=other["k"].detach()))


def test_values_are_looked_at_where_it_is_wished():
    text = """
import torch
from deltasane import ops
x = torch.full((1, 32, 1, 64), 0.1, device="cuda")
for w, tau in ((-x, 2.0), (x, 2.0), (x + 0.8, torch.zeros(1, device="cuda"))):
    try:
        ops.rwkv7(x, w, x, x, -x, x, tau=tau)
        print("taken")
    except ValueError as error:
        print(str(error).split(",")[0])
"""
    found = subprocess.run(
        [sys.executable, "-c", text], env=dict(os.environ, DELTASANE_CHECK="1"), capture_output=True, text=True, check=True
    )
    decays = "w: expected decays above 0.545 and at most 1"
    assert found.stdout.splitlines() == [decays, decays, "tau: expected finite numbers above 0"]


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
        (ValueError, "tau: expected a finite number above 0, found -1", {"tau": -1}),
    ):
        with pytest.raises(error, match=text):
            ops.rwkv7(**dict(given, **changed))
    later = {n: x.requires_grad_() for n, x in case(1, 20, 1).items()}
    later["tau"] = torch.full((1, 1, 1), 2.0, device="cuda")
    y, _ = ops.rwkv7(**later, position=3)
    with pytest.raises(ValueError, match="position: expected a multiple of 16"):
        y.sum().backward()
    assert np.isfinite(y.detach().float().cpu().numpy()).all()
