"""Usual calls, which the extension takes by itself: the same bits as the general way, and nothing unusual among them."""

from types import SimpleNamespace

import numpy as np
import pytest
from cases import random_case

torch = pytest.importorskip("torch", reason="torch is not installed")

from deltasane import _ops, ops  # noqa: E402
from deltasane.ops import _torch  # noqa: E402

pytestmark = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch has no C functions of DLPack (from 2.10)"
)


def tensors(case, grad=True):
    return {n: None if x is None else torch.from_numpy(x.copy()).requires_grad_(grad) for n, x in case.items()}


@pytest.fixture
def general(monkeypatch):
    """Without direct calls, as with an older torch."""

    def run(body):
        with monkeypatch.context() as patch:
            patch.setattr(_torch, "calls", _ops.direct_torch_calls(None, False))
            return body()

    return run


class Counted:
    """Direct calls, and how many were taken."""

    def __init__(self, calls):
        self.calls, self.taken = calls, []

    def run(self, *arguments):
        found = self.calls.run(*arguments)
        self.taken += [] if found is None else ["forward"]
        return found

    def forward(self, *arguments):
        found = self.calls.forward(*arguments)
        self.taken += [] if found is None else ["forward"]
        return found

    def is_usual(self, *arguments):
        return self.calls.is_usual(*arguments)

    def backward(self, *arguments):
        found = self.calls.backward(*arguments)
        self.taken += [] if found is None else ["backward"]
        return found


@pytest.fixture
def counted(monkeypatch):
    found = Counted(_torch.calls)
    monkeypatch.setattr(_torch, "calls", found)
    return found


def both_passes(case, loss=lambda y, state: y.square().sum() + state.square().sum(), **settings):
    y, state = ops.rwkv7(**case, **settings)
    given = [x for x in case.values() if x is not None and x.requires_grad]
    return [y, state, *(torch.autograd.grad(loss(y, state), given) if given else [])]


@pytest.mark.parametrize("kind", ["sane", "plain", "later", "inside a chunk", "chunks of 8", "few tokens", "a number", "logs", "some gradients", "no gradients"])
def test_same_bits_as_the_general_way(counted, general, kind):
    case, settings = random_case(2, 35, 3, 64), {}
    if kind == "plain":
        case["tau"] = case["state"] = None
    if kind == "later":
        settings["position"] = 32
    if kind == "inside a chunk":
        case, settings["position"] = random_case(2, 35, 3, 64, chunks=3), 13
    if kind == "chunks of 8":
        case, settings["chunk"] = random_case(2, 35, 3, 64, chunks=4), 8
    if kind == "few tokens":
        case = random_case(2, 7, 3, 64)
        assert case["tau"].size == 0
    if kind == "a number":
        settings["tau"], settings["position"] = 1.5, 32
        del case["tau"]
    if kind == "logs":
        case["w"], settings["decay"] = np.log(case["w"]), "log"
    case = tensors(case, grad=kind != "no gradients")
    if kind == "some gradients":
        for name in ("r", "k", "tau"):
            case[name].requires_grad_(False)
    found = both_passes(case, **settings)
    assert counted.taken == ["forward"] + ["backward"] * (kind != "no gradients")
    expected = general(lambda: both_passes(case, **settings))
    assert len(found) == len(expected) and all(torch.equal(x, y) for x, y in zip(found, expected))


def test_one_loss_is_enough(counted, general):
    case = tensors(random_case(2, 35, 3, 64))
    for loss in (lambda y, state: y.sum(), lambda y, state: state.square().sum()):
        found, expected = both_passes(case, loss), general(lambda: both_passes(case, loss))
        assert all(torch.equal(x, y) for x, y in zip(found, expected))
    assert counted.taken == ["forward", "backward"] * 2


ORDER = (*"rwkvab", "beta", "tau", "state", "mask", "neutralize")


def unusual():
    x = torch.full((2, 20, 3, 64), 0.5)
    yield "strides", {"k": torch.full((2, 3, 20, 64), 0.5).transpose(1, 2)}
    yield "expanded", {"v": x[:1].expand(2, 20, 3, 64)}
    yield "bfloat16", {n: x.bfloat16() for n in "rkvab"}
    yield "float64", {n: x.double() for n in "rwkvab"}
    yield "a list", {"v": x.tolist()}
    yield "tau of heads", {"tau": torch.ones(3)}
    yield "tau of bfloat16", {"tau": torch.ones(2, 1, 3).bfloat16()}
    yield "a state of others", {"state": torch.ones(1, 3, 64, 64)}
    yield "mask", {"mask": torch.ones(2, 20, dtype=torch.bool)}
    yield "neutralize", {"neutralize": torch.ones(2, 1, dtype=torch.bool)}
    yield "positions", {"position": [0, 16]}
    yield "before the first token", {"position": -1}
    yield "no chunk", {"chunk": 0}
    yield "fewer values", {"v": x[..., :32].contiguous()}
    yield "no tokens", {n: x[:, :0] for n in "rwkvab"}
    yield "nothing for b", {"b": None}
    yield "meta", {"r": x.to("meta")}
    yield "sparse", {"a": x.to_sparse()}
    yield "a subclass", {"a": x.as_subclass(type("Own", (torch.Tensor,), {}))}


@pytest.mark.parametrize("changed", [pytest.param(changed, id=name) for name, changed in unusual()])
def test_unusual_calls_are_not_taken(changed):
    given = {**{n: torch.full((2, 20, 3, 64), 0.5) for n in "rwkvab"}, **changed}
    position, chunk = given.pop("position", 0), given.pop("chunk", 16)
    assert _torch.direct(tuple(given.get(n) for n in ORDER), position, chunk, "decay", True) is None


def test_says_whether_a_gradient_is_needed():
    free, given = (tensors(random_case(1, 20, 1, 16), grad) for grad in (False, True))
    for case, with_gradients, expected in ((free, True, False), (given, True, True), (given, False, False)):
        arguments = *(case.get(n) for n in ORDER), [], [], 16, "generalized", False, True
        assert _torch.calls.forward(arguments, with_gradients)[3] is expected


def test_gradients_are_given_only_where_they_are_recorded():
    arrays = tuple(tensors(random_case(1, 20, 1, 16)).get(n) for n in ORDER)
    assert len(_torch.calls.run(arrays, 0, 16, "decay", True)) == 4
    with torch.no_grad():
        assert len(_torch.calls.run(arrays, 0, 16, "decay", True)) == 2
    assert len(_torch.calls.run(tuple(None if x is None else x.detach() for x in arrays), 0, 16, "decay", True)) == 2


@pytest.mark.parametrize("position,chunk,decay", [
    (-1, 16, "decay"), (2**62 + 1, 16, "decay"), (2**70, 16, "decay"), (0, 0, "decay"), (True, 16, "decay"), ([0], 16, "decay"),
    (0, 16.0, "decay"), (0, 16, "log"), (0, 16, b"decay"), (0, 16, None),
])  # fmt: skip
def test_unusual_settings_are_not_taken(position, chunk, decay):
    x = torch.full((1, 20, 1, 16), 0.5)
    assert _torch.calls.run((x,) * 6 + (None,) * 5, position, chunk, decay, True) is None


def test_without_the_functions_of_torchs_compiler(monkeypatch):
    """A torch that has no quick way to allocate: its usual one."""
    made = []
    empty = lambda *x, **y: made.append(x[0]) or torch.empty(*x, **y)  # noqa: E731
    other = SimpleNamespace(
        Tensor=torch.Tensor, nn=torch.nn, float32=torch.float32, bfloat16=torch.bfloat16, empty=empty, _C=SimpleNamespace()
    )
    case = tensors(random_case(2, 35, 3, 64))
    expected = both_passes(case)
    monkeypatch.setattr(_torch, "calls", _ops.direct_torch_calls(other, False))
    found = both_passes(case)
    assert made[:2] == [(2, 35, 3, 64), (2, 3, 64, 64)] and len(made) == 2 + len(case)
    assert all(torch.equal(x, y) for x, y in zip(found, expected))


def test_an_unusual_call_computes_no_decays_twice():
    given = {n: torch.full((2, 20, 3, 64), 0.5) for n in "rwkvab"} | {"k": torch.full((2, 3, 20, 64), 0.5).transpose(1, 2)}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        ops.rwkv7(**given, decay="rwkv", tau=2.0)
    assert sum(event.count for event in seen.key_averages() if event.key == "aten::exp") == 2


def test_a_tau_of_no_chunks_is_no_absent_tau():
    x = torch.full((1, 20, 1, 64), 0.5)
    with pytest.raises(ValueError, match=r"tau: expected shape \(1, 1, 1\), found \(1, 0, 1\)"):
        ops.rwkv7(x, x, x, x, x, x, tau=torch.ones(1, 0, 1))


def test_saved_tensors_may_come_back_otherwise(counted, general):
    """Hooks may keep them elsewhere, and need not give back packed ones."""
    case = tensors(random_case(2, 20, 3, 64))
    expected = general(lambda: both_passes(case))
    moved = lambda x: x.transpose(0, -1).contiguous().transpose(0, -1) if x.ndim else x  # noqa: E731
    with torch.autograd.graph.saved_tensors_hooks(moved, lambda x: x):
        found = both_passes(case)
    assert counted.taken == ["forward"]
    assert all(torch.equal(x, y) for x, y in zip(found, expected))


def test_is_seen_by_modes_and_traces():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            seen.append(str(function))
            return function(*arguments, **(keywords or {}))

    case = tensors(random_case(1, 20, 1, 16), grad=False)
    with Names():
        ops.rwkv7(**case)
    assert "deltasane.delta_rule.default" in seen
    traced = torch.jit.trace(lambda r: ops.rwkv7(**dict(case, r=r))[0], (case["r"],), check_trace=False)
    assert torch.equal(traced(2 * case["r"]), ops.rwkv7(**dict(case, r=2 * case["r"]))[0])


def test_forward_mode_derivatives_are_refused():
    from torch.autograd import forward_ad

    case = tensors(random_case(1, 20, 1, 16), grad=False)
    with forward_ad.dual_level():
        ops.rwkv7(**case)
        case["k"] = forward_ad.make_dual(case["k"], torch.ones_like(case["k"]))
        with pytest.raises(NotImplementedError, match="forward-mode derivatives are not available"):
            ops.rwkv7(**case)


def test_negated_views_are_read_as_what_they_are():
    case = tensors(random_case(1, 20, 1, 16), grad=False)
    expected = ops.rwkv7(**dict(case, r=-case["r"]))[0]
    pairs = torch.view_as_complex(torch.stack([case["r"], case["r"]], -1))
    assert pairs.conj().imag.is_neg() and torch.equal(ops.rwkv7(**dict(case, r=pairs.conj().imag))[0], expected)


def test_memory_is_torchs_own():
    """So that record_stream and resizing work: not of a foreign owner."""
    y, state = ops.rwkv7(**tensors(random_case(1, 20, 1, 16), grad=False))
    assert y.untyped_storage().resizable() and state.untyped_storage().resizable()
    assert np.isfinite(y.numpy()).all()
