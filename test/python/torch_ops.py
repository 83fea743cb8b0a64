"""deltasane.ops on torch tensors: the same numbers, gradients, and torch's own checks of an operator."""

import warnings

import numpy as np
import pytest
from cases import NAMES, check_close, check_units, random_case, random_gated_case, relative_error

torch = pytest.importorskip("torch", reason="torch is not installed")

from deltasane import ops  # noqa: E402

NUMBERS = (*NAMES, "tau", "state")


def tensors(case, dtype=None, grad=True):
    found = {n: None if x is None else torch.from_numpy(x.copy()).to(dtype or torch.float32) for n, x in case.items()}
    return {n: x.requires_grad_() if grad and x is not None else x for n, x in found.items()}


def written_out(r, w, k, v, a, b, tau, state, chunk=16):
    """The recurrence in torch's own operations, for its autograd."""
    ys = []
    for t in range(r.shape[1]):
        sa = (state @ a[:, t, :, :, None])
        state = state * w[:, t, :, None, :] + sa * b[:, t, :, None, :] + v[:, t, :, :, None] * k[:, t, :, None, :]
        ys.append((state @ r[:, t, :, :, None])[..., 0])
        if (t + 1) % chunk == 0:
            bound = tau[:, t // chunk, :, None, None]
            state = bound * torch.tanh(state / bound)
    return torch.stack(ys, 1), state


def test_same_bits_as_numpy():
    case = random_case(2, 35, 3, 64)
    for x, y in zip(ops.rwkv7(**tensors(case)), ops.rwkv7(**case)):
        assert np.array_equal(x.detach().numpy(), y)


@pytest.mark.parametrize("with_state_loss", [False, True])
def test_gradients_are_those_of_autograd(with_state_loss):
    """In float, against torch's autograd in double: the rule, and what docs/python.md promises, 1e-6 of the norm."""
    case = random_case(1, 35, 2, 64)
    rng = np.random.default_rng(1)
    cy = torch.from_numpy(rng.standard_normal(case["v"].shape))
    cs = torch.from_numpy(rng.standard_normal(case["state"].shape)) * with_state_loss
    mine, plain, truth = tensors(case), tensors(case), tensors(case, torch.float64)
    for function, inputs in ((ops.rwkv7, mine), (written_out, plain), (written_out, truth)):
        real = inputs["r"].dtype
        y, state = function(**inputs)
        ((y * cy.to(real)).sum() + (state * cs.to(real)).sum()).backward()
    for name in NUMBERS:
        check_close(name, mine[name].grad, plain[name].grad, truth[name].grad)
        assert relative_error(mine[name].grad, truth[name].grad) < 1e-6, name


def test_reference_passes_gradcheck():
    case = tensors(random_case(1, 18, 1, 3, 2), torch.float64)
    assert torch.autograd.gradcheck(lambda *x: ops.reference.rwkv7(*x[:6], tau=x[6], state=x[7]), tuple(case.values()))
    for rule in ("deltanet", "gated_deltanet", "kda"):
        case = random_gated_case(rule, 17, 2, 1, 3, 2)
        case = tensors({n: 0.99 * x for n, x in case.items()}, torch.float64)  # a decay stays below 1
        names = tuple(case)
        assert torch.autograd.gradcheck(
            lambda *x: ops.reference.delta_rule(**dict(zip(names, x)), rule=rule), tuple(case.values())
        )


@pytest.mark.parametrize("decay", ["log", "rwkv", "clampw"])
def test_gradients_of_other_decays(decay):
    case = tensors(random_case(1, 17, 1, 4), torch.float64)
    case["w"] = torch.randn_like(case["w"]).abs().neg().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda *x: ops.reference.rwkv7(*x[:6], tau=x[6], state=x[7], decay=decay), tuple(case.values())
    )


def arguments(case, rule="generalized", mask=None, neutralize=None, position=(), cu_seqlens=(), definition=False):
    order = (*NAMES, "beta", "tau", "state")
    return (*(case.get(n) for n in order), mask, neutralize, list(position), list(cu_seqlens), 16, rule, definition)


@pytest.mark.parametrize("kind", ["plain", "sane", "mask", "positions", "texts", "kda", "definition"])
def test_opcheck(kind):
    case = tensors(random_case(1, 20, 2, 16))
    more = {}
    if kind == "plain":
        case["tau"] = case["state"] = None
    if kind == "mask":
        more = {"mask": torch.ones(1, 20, dtype=torch.uint8), "neutralize": torch.zeros(1, 1, dtype=torch.uint8)}
    if kind == "positions":
        more = {"position": [7]}
    if kind == "texts":
        case["state"] = torch.zeros(2, 2, 16, 16, requires_grad=True)
        more = {"cu_seqlens": [0, 16, 20]}
    if kind == "kda":
        case, more = tensors(random_gated_case("kda", 20, 2, 1, 16, 16)), {"rule": "kda"}
    if kind == "definition":
        case, more = tensors(random_case(1, 20, 2, 4), torch.float64), {"definition": True}
    given = arguments(case, **more)
    operators = torch.ops.deltasane
    torch.library.opcheck(operators.delta_rule.default, (*given, True))
    fixed = [x.detach() if isinstance(x, torch.Tensor) else x for x in given]
    y, state, kept = operators.delta_rule(*fixed, True)
    wanted = [x is not None for x in fixed[:9]]
    torch.library.opcheck(operators.delta_rule_backward.default, (y, state, *fixed, kept, wanted))


def test_compiles_whole_with_any_length():
    function = torch.compile(lambda **x: ops.rwkv7(**x, tau=1.5), fullgraph=True, dynamic=True, backend="aot_eager")
    for time in (20, 35):
        case = tensors(dict(random_case(1, time, 2, 64), tau=np.ones(1)))
        del case["tau"]
        y, state = function(**case)
        expected = ops.rwkv7(**case, tau=1.5)
        assert torch.equal(y, expected[0]) and torch.equal(state, expected[1])
        (first,) = torch.autograd.grad(y.sum(), case["w"])
        (second,) = torch.autograd.grad(expected[0].sum(), case["w"])
        assert torch.equal(first, second)


def test_gradients_of_any_strides():
    """y.sum() hands over a gradient with strides of 0; inputs may be transposed or expanded."""
    case = tensors(random_case(2, 20, 3, 64))
    plain = torch.autograd.grad(ops.rwkv7(**case)[0].sum(), list(case.values()))
    moved = {n: x.detach().transpose(1, 2).contiguous().transpose(1, 2) for n, x in case.items() if n in NAMES}
    moved["v"] = torch.stack([case["v"].detach()] * 2, -1)[..., 0]
    moved = {n: x.requires_grad_() for n, x in moved.items()}
    moved.update(tau=case["tau"], state=case["state"])
    other = torch.autograd.grad(ops.rwkv7(**moved)[0].sum(), list(moved.values()))
    assert all(torch.equal(x, y) for x, y in zip(plain, other))


def test_only_what_is_wanted_has_a_gradient():
    case = tensors(random_case(1, 20, 1, 64), grad=False)
    assert not ops.rwkv7(**case)[0].requires_grad
    case["tau"].requires_grad_()
    y, state = ops.rwkv7(**case)
    (dtau,) = torch.autograd.grad(state.square().sum(), case["tau"])
    assert dtau.shape == case["tau"].shape and dtau.abs().sum() > 0
    with torch.no_grad():
        assert not ops.rwkv7(**case)[0].requires_grad


def test_tau_per_head_gets_its_gradient():
    case = tensors(random_case(2, 35, 3, 64))
    whole = torch.full((2, 2, 3), 1.5, requires_grad=True)
    heads = torch.full((3,), 1.5, requires_grad=True)
    (expected,) = torch.autograd.grad(ops.rwkv7(**dict(case, tau=whole))[0].sum(), whole)
    (found,) = torch.autograd.grad(ops.rwkv7(**dict(case, tau=heads))[0].sum(), heads)
    check_units("dtau", found, expected.double().sum((0, 1)))


def test_works_with_checkpoint_and_autocast():
    from torch.utils.checkpoint import checkpoint

    case = tensors(random_case(1, 20, 1, 64))
    values = list(case.values())
    plain = torch.autograd.grad(ops.rwkv7(**case)[0].sum(), values)
    with torch.autocast("cpu", torch.bfloat16):
        again = checkpoint(lambda *x: ops.rwkv7(*x[:6], tau=x[6], state=x[7])[0], *values, use_reentrant=False)
    assert all(torch.equal(x, y) for x, y in zip(plain, torch.autograd.grad(again.sum(), values)))


def test_bfloat16_is_widened_and_said_once():
    from deltasane.ops import _torch

    case = tensors(random_case(1, 20, 1, 64), grad=False)
    low = {n: x.bfloat16() if n in ("r", "k", "v", "a", "b") else x for n, x in case.items()}
    _torch._warned = False
    with pytest.warns(UserWarning, match="bfloat16 on a CPU is computed in float32"):
        y, state = ops.rwkv7(**low)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ops.rwkv7(**low)
    wide, expected = ops.rwkv7(**{n: x.float() for n, x in low.items()})
    assert y.dtype == torch.bfloat16 and torch.equal(y, wide.bfloat16()) and torch.equal(state, expected)


def test_functions_of_states():
    state = torch.randn(1, 2, 16, 16, requires_grad=True)
    tau = torch.tensor([[1.0, 2.0]], requires_grad=True)
    bounded = ops.neutralize(state, tau)
    bound = tau.detach()[..., None, None]
    formula = lambda s, t: t * torch.tanh(s / t)  # noqa: E731
    check_close("state", bounded.detach(), formula(state.detach(), bound), formula(state.detach().double(), bound.double()))
    bounded.sum().backward()
    assert state.grad is not None and tau.grad is not None
    x, weight = torch.randn(1, 3, 8), torch.randn(8, 2)
    expected = 3 * np.log1p(np.exp((x @ weight).double().numpy())) + 1
    assert np.array_equal(ops.tau(x, weight, 3).numpy(), expected.astype(np.float32))


def refuses(error, text, **changed):
    with pytest.raises(error) as found:
        ops.rwkv7(**dict(tensors(random_case(1, 20, 1, 16), grad=False), **changed))
    assert text in str(found.value)


def test_misuse():
    x = torch.zeros(1, 20, 1, 16)
    refuses(TypeError, "k: expected a torch tensor, found ndarray", k=x.numpy())
    refuses(TypeError, "k: expected torch.float32, found torch.float16", k=x.half())
    refuses(TypeError, "r: expected torch.float32 or torch.bfloat16, found torch.complex64", r=x.to(torch.complex64))
    refuses(TypeError, "v: expected a dense tensor, found torch.sparse_coo", v=x.to_sparse())
    refuses(TypeError, "w: expected torch.float32, found torch.bfloat16", w=x.bfloat16())
    refuses(ValueError, "b: expected a tensor on cpu like r, found one on meta", b=x.to("meta"))
    refuses(ValueError, "r: expected a tensor on cpu or cuda, found one on meta", r=x.to("meta"))
    refuses(TypeError, "mask: expected torch.bool, found torch.float32", mask=torch.ones(1, 20))
    refuses(ValueError, "tau: expected shape (1, 1, 1), found (1, 20, 1)", tau=torch.ones(1, 20, 1))
    refuses(TypeError, "v: expected a dense tensor, found nested", v=torch.nested.nested_tensor([x[0]]))
    refuses(TypeError, "k: expected torch.float32, found torch.qint8", k=torch.quantize_per_tensor(x, 0.1, 0, torch.qint8))
    refuses(TypeError, "mask: expected torch.bool, found torch.float32", mask=torch.ones(1, 20, requires_grad=True))
    refuses(TypeError, "k: expected a torch tensor, found list", k=x.tolist())
    refuses(TypeError, "state: expected torch.float32, found torch.bfloat16", state=torch.zeros(1, 1, 16, 16).bfloat16())
    refuses(ValueError, "state: expected a tensor on cpu like r, found one on meta", state=torch.zeros(1, 1, 16, 16, device="meta"))
    for settings in ({}, {"tau": 2.0}, {"decay": "log"}, {"position": 16}):  # not torch's RuntimeError
        refuses(ValueError, f"v: expected shape (1, 20, 1, 16), found ({2**44}, 20, 1, 16)", v=x.expand(2**44, 20, 1, 16), **settings)
    refuses(ValueError, "mask: expected shape (1, 20)", mask=torch.ones(1, 20, dtype=torch.bool).expand(2**44, 20))
    with pytest.raises(ValueError, match=r"v: expected shape \(1, 20, 2, 16\), found \(17592186044416, 20, 2, 16\)"):
        ops.delta_rule(x, x, x.expand(2**44, 20, 2, 16), torch.zeros(1, 20, 2), rule="deltanet")
    for value in (0, -1, float("nan"), float("inf")):
        refuses(ValueError, "tau: expected a finite number above 0", tau=value)
    refuses(ValueError, "tau(0, 0, 0): expected a finite number above 0", tau=torch.zeros(1, 1, 1))
    refuses(ValueError, "expected a decay from 0 to 1", w=x - 0.1)
    with pytest.raises(TypeError, match="torch's own backward gives the gradients"):
        ops.rwkv7_backward(x, x, x, x, x, x, x)


class Rows(torch.utils.data.Dataset):
    """Computed in the workers of a DataLoader, which are forks."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return ops.rwkv7(**tensors(random_case(1, 200, 3, 64, chunks=12, seed=i), grad=False))[0]


def test_works_in_the_workers_of_a_data_loader():
    rows = Rows()
    expected = [rows[i] for i in range(4)]  # threads are running when the workers are forked
    loader = torch.utils.data.DataLoader(rows, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert all(torch.equal(x, y) for x, y in zip(loader, expected))


def test_transforms_are_refused():
    case = tensors(random_case(2, 20, 1, 16), grad=False)
    batched = {n: torch.stack([x, x]) for n, x in case.items()}
    with pytest.raises(NotImplementedError, match="transforms of torch.func .vmap, grad. are not available"):
        torch.func.vmap(lambda x: ops.rwkv7(**x))(batched)
    with pytest.raises(NotImplementedError, match="use the batch dimension, and torch.autograd"):
        torch.func.grad(lambda w: ops.rwkv7(**dict(case, w=w))[0].sum())(case["w"])


def test_changes_in_place_are_noticed():
    case = tensors(random_case(1, 20, 1, 16))
    changed = case["k"] * 1
    y, _ = ops.rwkv7(**dict(case, k=changed))
    changed.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_second_derivatives_are_refused():
    case = tensors(random_case(1, 20, 1, 16))
    (dw,) = torch.autograd.grad(ops.rwkv7(**case)[0].square().sum(), case["w"], create_graph=True)
    with pytest.raises(NotImplementedError, match="second derivatives are not available"):
        dw.sum().backward()
