"""deltasane.ops on numpy arrays: against the definition in double, and the laws of the recurrence."""

import numpy as np
import pytest
from cases import NAMES, check_close, check_units, in_double, random_case, random_gated_case, relative_error

from deltasane import ops

RULES = ("deltanet", "gated_deltanet", "kda")


def cut(case, part):
    return {name: x[:, part] for name, x in case.items() if name in NAMES}


@pytest.mark.parametrize("batch,time,heads,keys", [
    (1, 1, 1, 64), (2, 15, 1, 64), (1, 16, 2, 64), (2, 17, 3, 64), (2, 35, 3, 64), (1, 129, 1, 64),
    (1, 20, 2, 1), (1, 20, 2, 5), (1, 20, 2, 48), (1, 20, 1, 128), (1, 20, 1, 256),
])  # fmt: skip
def test_is_the_definition(batch, time, heads, keys):
    case = random_case(batch, time, heads, keys, seed=time)
    found, plain = ops.rwkv7(**case), ops.reference.rwkv7(**case)
    truth = ops.reference.rwkv7(**in_double(case))
    for name, results in zip(("y", "state"), zip(found, plain, truth)):
        check_close(name, *results)


@pytest.mark.parametrize("rule", RULES)
def test_other_rules_are_the_definition(rule):
    case = random_gated_case(rule)
    truth = ops.reference.delta_rule(**in_double(case), rule=rule)
    plain = ops.reference.delta_rule(**case, rule=rule)
    for name, results in zip(("y", "state"), zip(ops.delta_rule(**case, rule=rule), plain, truth)):
        check_close(name, *results)


@pytest.mark.parametrize("values", [64, 9])
def test_gradients_are_the_definition(values):
    case = random_case(2, 35, 2, 64, values)
    rng = np.random.default_rng(7)
    dy = rng.standard_normal(case["v"].shape).astype(np.float32)
    dstate = rng.standard_normal(case["state"].shape).astype(np.float32)
    found = ops.rwkv7_backward(dy, **case, dstate=dstate)
    plain = ops.reference.rwkv7_backward(dy, **case, dstate=dstate)
    truth = ops.reference.rwkv7_backward(
        dy.astype(float), **in_double(case), dstate=dstate.astype(float)
    )
    for name, results in zip(found._fields, zip(found, plain, truth)):
        if name == "dbeta":
            assert results[0] is None
            continue
        check_close(name, *results)


@pytest.mark.parametrize("with_state_loss", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_gradients_are_exact_to_a_millionth(seed, with_state_loss):
    """What docs/python.md says. The terms of dtau cancel by a factor of 10 to 80 here."""
    case = random_case(1, 35, 2, 64, seed=seed)
    rng = np.random.default_rng(1)
    dy = rng.standard_normal(case["v"].shape).astype(np.float32)
    dstate = with_state_loss * rng.standard_normal(case["state"].shape).astype(np.float32)
    found = ops.rwkv7_backward(dy, **case, dstate=dstate)._asdict()
    truth = ops.reference.rwkv7_backward(dy.astype(float), **in_double(case), dstate=dstate.astype(float))._asdict()
    for name, x in found.items():
        assert x is None or relative_error(x, truth[name]) < 1e-6, name


def test_an_infinite_gradient_stays_infinite():
    case = random_case(1, 16, 2, 64)
    dstate = np.zeros_like(case["state"])
    dstate[0, 1, 3, 5] = np.inf
    dtau = ops.rwkv7_backward(np.zeros_like(case["v"]), **case, dstate=dstate).dtau
    truth = ops.reference.rwkv7_backward(np.zeros_like(case["v"]), **case, dstate=dstate).dtau
    assert np.isinf(truth[0, 0, 1]) and np.array_equal(dtau, truth)


@pytest.mark.parametrize("rule", RULES)
def test_other_gradients_are_the_definition(rule):
    case = random_gated_case(rule)
    dy = np.random.default_rng(7).standard_normal(case["v"].shape).astype(np.float32)
    found = ops.delta_rule_backward(dy, **case, rule=rule)
    plain = ops.reference.delta_rule_backward(dy, **case, rule=rule)
    truth = ops.reference.delta_rule_backward(dy.astype(float), **in_double(case), rule=rule)
    for name, *results in zip(found._fields, found, plain, truth):
        if results[0] is not None:
            check_close(name, *results)


def _sigmoid(w):
    return 1 / (1 + np.exp(-w))


CLAMP = np.exp(-0.5)
# The decay, and its derivative, by what w is.
DECAYS = {
    "log": (np.exp, np.exp),
    "rwkv": (lambda w: np.exp(-np.exp(w)), lambda w: -np.exp(w - np.exp(w))),
    "clampw": (
        lambda w: np.exp(-CLAMP * _sigmoid(w)),
        lambda w: -CLAMP * np.exp(-CLAMP * _sigmoid(w)) * _sigmoid(w) * _sigmoid(-w),
    ),
}


@pytest.mark.parametrize("decay", DECAYS)
def test_decays_of_others(decay):
    """As if the decays were given; the gradient is that of what was given, by the chain rule."""
    given = in_double(random_case(1, 20, 1, 8))
    given["w"] = -np.abs(np.random.default_rng(4).standard_normal(given["w"].shape)) - 0.1
    function, derivative = DECAYS[decay]
    as_decays = dict(given, w=function(given["w"]))
    for name, x, y in zip(("y", "state"), ops.reference.rwkv7(**given, decay=decay), ops.reference.rwkv7(**as_decays)):
        check_units(name, x, y, np.float64)
    dy = np.random.default_rng(3).standard_normal(given["v"].shape)
    found = ops.reference.rwkv7_backward(dy, **given, decay=decay).dw
    expected = ops.reference.rwkv7_backward(dy, **as_decays).dw * derivative(given["w"])
    check_units("dw", found, expected, np.float64)


@pytest.mark.parametrize("first", [16, 32])
def test_parts_are_the_whole_in_bits(first):
    case = random_case(2, 77, 3, 64, chunks=4)
    y, state = ops.rwkv7(**case)
    y1, middle = ops.rwkv7(**cut(case, slice(0, first)), tau=case["tau"][:, : first // 16], state=case["state"])
    y2, end = ops.rwkv7(
        **cut(case, slice(first, 77)), tau=case["tau"][:, first // 16 :], state=middle, position=first
    )
    assert np.array_equal(np.concatenate([y1, y2], 1), y)
    assert np.array_equal(end, state)


def plain_and_truth(**given):
    """(plain, truth) of a call: the definition in float and in double, each (y, state)."""
    return ops.reference.rwkv7(**given), ops.reference.rwkv7(**in_double(given))


def test_steps_are_the_whole():
    case = random_case(1, 33, 2, 64)
    state, ys = case["state"], []
    for t in range(33):
        token = {name: x[:, t] for name, x in case.items() if name in NAMES}
        y, state = ops.step(**token, state=state, position=t, tau=case["tau"][:, min(t // 16, 1)])
        ys.append(y)
    for name, *results in zip(("y", "state"), (np.stack(ys, 1), state), *plain_and_truth(**case)):
        check_close(name, *results)


def test_texts_in_one_row_are_as_if_alone():
    case = random_case(1, 60, 2, 64, chunks=4, state=False)
    lengths, starts = [17, 0, 3, 40], [0, 5, 14, 16]
    ends = np.cumsum([0, *lengths])
    chunks = [(p + n) // 16 - p // 16 for p, n in zip(starts, lengths)]
    assert sum(chunks) == 4
    states = random_case(4, 1, 2, 64, seed=5)["state"]
    y, final = ops.rwkv7(**dict(case, state=states), position=starts, cu_seqlens=ends)
    dy = random_case(1, 60, 2, 64, seed=8)["v"]
    grads = ops.rwkv7_backward(dy, **dict(case, state=states), position=starts, cu_seqlens=ends)
    chunk = 0
    for i, (begin, end) in enumerate(zip(ends, ends[1:])):
        part = cut(case, slice(begin, end))
        own = dict(tau=case["tau"][:, chunk : chunk + chunks[i]], state=states[i : i + 1], position=starts[i])
        y1, final1 = ops.rwkv7(**part, **own)
        assert np.array_equal(y1, y[:, begin:end]) and np.array_equal(final1[0], final[i])
        one = ops.rwkv7_backward(dy[:, begin:end], **part, **own)
        assert np.array_equal(one.dw, grads.dw[:, begin:end])
        assert np.array_equal(one.dtau, grads.dtau[:, chunk : chunk + chunks[i]])
        assert np.array_equal(one.dstate[0], grads.dstate[i])
        chunk += chunks[i]


def test_padding_changes_nothing():
    case = random_case(1, 20, 2, 64, state=False)
    mask = np.ones((1, 26), bool)
    mask[:, :6] = False
    padded = {n: np.concatenate([np.full_like(x[:, :6], 0.5), x], 1) for n, x in case.items() if n in NAMES}
    y, state = ops.rwkv7(**padded, mask=mask)
    assert not y[:, :6].any()
    for name, *results in zip(("y", "state"), (y[:, 6:], state), *plain_and_truth(**cut(case, slice(0, 20)))):
        check_close(name, *results)


def test_chunks_can_be_left_alone():
    case = random_case(1, 32, 1, 64)
    no_sane = dict(case, tau=None)
    none = ops.rwkv7(**case, neutralize=np.zeros((1, 2), bool))
    assert all(np.array_equal(x, y) for x, y in zip(none, ops.rwkv7(**no_sane)))
    assert not np.array_equal(ops.rwkv7(**case, neutralize=np.array([[True, False]]))[1], none[1])


def test_no_tokens():
    case = random_case(2, 0, 3, 64)
    y, state = ops.rwkv7(**case)
    assert y.shape == (2, 0, 3, 64) and np.array_equal(state, case["state"]) and state is not case["state"]
    dstate = np.ones_like(state)
    assert np.array_equal(ops.rwkv7_backward(y, **case, dstate=dstate).dstate, dstate)
    for batch, heads in ((0, 2), (2, 0)):
        y, state = ops.rwkv7(**random_case(batch, 5, heads, 64))
        assert y.shape == (batch, 5, heads, 64) and state.shape == (batch, heads, 64, 64)


@pytest.mark.parametrize("layout", ["transposed", "reversed", "expanded", "offset", "misaligned", "fortran"])
def test_any_strides(layout):
    case = random_case(2, 20, 3, 64)
    expected = ops.rwkv7(**case)

    def laid_out(x):
        if layout == "transposed":
            return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
        if layout == "reversed":
            return np.ascontiguousarray(x[:, ::-1])[:, ::-1]
        if layout == "offset":
            return np.stack([x, x], -1)[..., 1]
        if layout == "misaligned":
            raw = np.zeros(x.nbytes + 1, np.uint8)
            to = raw[1:].view(np.float32).reshape(x.shape)
            to[...] = x
            return to
        if layout == "fortran":
            return np.asfortranarray(x)
        return x

    moved = {name: laid_out(x) for name, x in case.items()}
    if layout == "expanded":
        moved["w"] = np.broadcast_to(case["w"][:, :1, :, :], case["w"].shape)
        expected = ops.rwkv7(**dict(case, w=np.ascontiguousarray(moved["w"])))
    for x, y in zip(ops.rwkv7(**moved), expected):
        assert np.array_equal(x, y)


def test_tau_is_spread_out():
    case = random_case(2, 35, 3, 64)
    per_head = np.array([1.5, 2, 3], np.float32)
    whole = np.ascontiguousarray(np.broadcast_to(per_head, (2, 2, 3)))
    expected = ops.rwkv7(**dict(case, tau=whole))
    assert np.array_equal(ops.rwkv7(**dict(case, tau=per_head))[0], expected[0])
    for number in (2, 1.5, 2.0):
        one = ops.rwkv7(**dict(case, tau=number))[1]
        assert np.array_equal(one, ops.rwkv7(**dict(case, tau=np.full((2, 2, 3), number, np.float32)))[1])
    dy, spread = case["v"], dict(case, tau=whole)
    found = ops.rwkv7_backward(dy, **dict(case, tau=per_head)).dtau
    plain = ops.reference.rwkv7_backward(dy, **spread).dtau.sum((0, 1))
    truth = ops.reference.rwkv7_backward(dy.astype(float), **in_double(spread)).dtau.sum((0, 1))
    check_close("dtau", found, plain, truth)


def test_nan_stays_in_its_head():
    case = random_case(1, 20, 2, 64)
    case["v"][0, 3, 0, 5] = np.nan
    y, state = ops.rwkv7(**case)
    assert np.isnan(y[0, 3:, 0, 5]).all() and np.isfinite(y[0, :, 1]).all() and np.isfinite(state[0, 1]).all()
    assert np.isfinite(y[0, :, 0, :5]).all()


def test_threads_change_nothing():
    import deltasane

    case = random_case(2, 200, 3, 64, chunks=12)
    expected = ops.rwkv7(**case)
    try:
        deltasane.set_threads(3)
        assert deltasane.threads() == 3
        for x, y in zip(ops.rwkv7(**case), expected):
            assert np.array_equal(x, y)
    finally:
        deltasane.set_threads(0)


def test_neutralize_bounds_a_state():
    state = 10 * random_case(2, 1, 3, 64)["state"]
    per_head = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    for tau in (np.float32(1.5), per_head):
        t = tau[..., None, None] if tau.ndim else tau
        truth = t.astype(float) * np.tanh(state.astype(float) / t)
        found = ops.neutralize(state, tau if tau.ndim else float(tau))
        check_close("state", found, t * np.tanh(state / t), truth)


def test_tau_of_products():
    x = random_case(1, 5, 1, 8)["r"][:, :, 0]
    weight = random_case(1, 8, 1, 3)["r"][0, :, 0]
    expected = 3 * np.log1p(np.exp((x @ weight).astype(float))) + 1
    assert np.array_equal(ops.tau(x, weight, 3), expected.astype(np.float32))


def test_takes_arrays_of_others_through_dlpack():
    class Other:
        def __init__(self, x):
            self.x = x

        def __dlpack__(self, **_):
            return self.x.__dlpack__()

        def __dlpack_device__(self):
            return self.x.__dlpack_device__()

    case = random_case(1, 20, 1, 64)
    others = {name: Other(x) for name, x in case.items()}
    assert np.array_equal(ops.rwkv7(**others)[0], ops.rwkv7(**case)[0])


@pytest.mark.parametrize("settings", [{}, {"position": 32}, {"position": 13}, {"chunk": 8}, {"tau": 1.5}, {"tau": None, "state": None}])
def test_usual_calls_have_the_bits_of_others(settings):
    """Those that the extension takes whole: packed arrays, one position. The others have a mask that hides nothing."""
    from deltasane.ops import _numpy

    chunk, position = settings.get("chunk", 16), settings.get("position", 0)
    case = {**random_case(2, 35, 3, 64, chunks=(position + 35) // chunk - position // chunk), **settings}
    order = ("r", "w", "k", "v", "a", "b", "beta", "tau", "state", "mask", "neutralize")
    direct = _numpy.direct(tuple(case.get(n) for n in order), position, chunk, "decay", True)
    found, expected = ops.rwkv7(**case), ops.rwkv7(**case, mask=np.ones((2, 35), bool))
    for one, other, third in zip(direct, found, expected):
        assert np.array_equal(one, other) and np.array_equal(other, third)


def test_unusual_calls_are_not_taken_whole():
    from deltasane.ops import _numpy

    x = np.full((2, 20, 3, 64), 0.5, np.float32)
    usual = [x] * 6 + [None] * 5
    shifted = np.frombuffer(bytes(1) + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    assert _numpy.direct(tuple(usual), 0, 16, "decay", True) is not None
    for place, other in (
        (0, x.astype(np.float64)), (1, x[..., ::-1]), (2, np.swapaxes(np.swapaxes(x, 1, 2).copy(), 1, 2)), (3, x.tolist()),
        (4, shifted), (5, None), (7, np.ones(3, np.float32)), (8, np.ones((1, 3, 64, 64), np.float32)),
        (0, x.astype(">f4")), (9, np.ones((2, 20), bool)), (10, np.ones((2, 1), bool)),
    ):  # fmt: skip
        given = list(usual)
        given[place] = other
        assert _numpy.direct(tuple(given), 0, 16, "decay", True) is None, place
    assert _numpy.direct(tuple(usual), [0, 16], 16, "decay", True) is None and _numpy.direct(tuple(usual), 0, 0, "decay", True) is None
