"""What callers get wrong is an exception that names it, never the end of the process."""

import os

import hostile
import numpy as np
import pytest
from cases import random_case

from deltasane import ops

CASE = random_case(2, 35, 3, 64)


def refuses(error, text, **changed):
    with pytest.raises(error) as found:
        ops.rwkv7(**dict(CASE, **changed))
    assert text in str(found.value)


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf])
def test_tau_that_is_no_bound(value):
    refuses(ValueError, "tau(0, 0, 0): expected a finite number above 0", tau=float(value))


def test_tau_of_other_shapes():
    refuses(ValueError, "tau: expected shape (2, 2, 3), found (2, 1, 3)", tau=CASE["tau"][:, :1])
    refuses(ValueError, "tau: expected shape (2, 2, 3), found (2, 35, 3)", tau=np.ones((2, 35, 3), np.float32))
    refuses(ValueError, "tau: expected (3,), one for each head, found (2,)", tau=np.ones(2, np.float32))


def test_types():
    refuses(TypeError, "tau: expected float32, found float64", tau=CASE["tau"].astype(float))
    refuses(TypeError, "r: expected float32, found float64", r=CASE["r"].astype(float))
    refuses(TypeError, "k: expected float32, found float16", k=CASE["k"].astype(np.float16))
    refuses(TypeError, "v: expected float32, found complex64", v=CASE["v"].astype(np.complex64))
    refuses(TypeError, "state: expected float32, found >f4", state=CASE["state"].astype(">f4"))
    refuses(TypeError, "mask: expected bool, found int64", mask=np.ones((2, 35), np.int64))
    refuses(TypeError, "a: expected a numpy array, found list", a=CASE["a"].tolist())
    refuses(TypeError, "position: expected integers, found 1.5", position=1.5)
    with pytest.raises(TypeError, match="k: expected float64, found float32"):
        ops.reference.rwkv7(**dict(CASE, r=CASE["r"].astype(float), w=CASE["w"].astype(float)))


def test_shapes():
    refuses(ValueError, "b: expected shape (2, 35, 3, 64), found (2, 34, 3, 64)", b=CASE["b"][:, 1:])
    refuses(ValueError, "r: expected shape (2, 35, 3, 64)", r=CASE["r"][:, :, :, :32])
    refuses(ValueError, "v: expected (batch, time, head, channel), found shape (35, 3, 64)", v=CASE["v"][0])
    refuses(ValueError, "state: expected shape (2, 3, 64, 64), found (1, 3, 64, 64)", state=CASE["state"][:1])
    refuses(ValueError, "mask: expected shape (2, 35)", mask=np.ones((2, 34), bool))
    refuses(ValueError, "expected at most 6 dimensions, found 7", tau=np.ones((1,) * 7, np.float32))
    with pytest.raises(ValueError, match="state: expected shape"):
        empty = random_case(2, 0, 3, 64)
        ops.rwkv7(**dict(empty, state=empty["state"][:1]))


def test_missing_arrays():
    refuses(ValueError, "b: expected shape (2, 35, 3, 64), found none", b=None)
    with pytest.raises(ValueError, match="rule: expected generalized, deltanet"):
        ops.delta_rule(CASE["r"], CASE["k"], CASE["v"], CASE["w"][..., 0], rule="gdn2")
    with pytest.raises(ValueError, match="w: expected none for the rule deltanet"):
        ops.delta_rule(CASE["r"], CASE["k"], CASE["v"], CASE["w"][..., 0], CASE["w"], rule="deltanet")


def test_logarithms_where_decays_are_meant():
    refuses(ValueError, "expected a decay from 0 to 1", w=np.log(CASE["w"]))
    refuses(ValueError, "say so with decay=", w=CASE["w"] + 1)
    refuses(ValueError, "decay: expected one of decay, log, rwkv, clampw, found 'exp'", decay="exp")


def test_positions_and_texts():
    refuses(ValueError, "position: expected 0 or more, found -1", position=-1)
    refuses(ValueError, "position: expected a number or 2 of them, found 3", position=[0, 1, 2])
    refuses(ValueError, "chunk: expected at least 1, found 0", chunk=0)
    refuses(ValueError, "v: expected (1, time, head, channel) with cu_seqlens", cu_seqlens=[0, 35])
    one = random_case(1, 35, 3, 64, chunks=2)
    for ends in ([0, 34], [1, 35], [0, 20, 10, 35]):
        with pytest.raises(ValueError, match="cu_seqlens: expected ascending numbers from 0 to 35"):
            ops.rwkv7(**dict(one, tau=None, state=None), cu_seqlens=ends)
    with pytest.raises(ValueError, match="cu_seqlens: expected at least 2 numbers"):
        ops.rwkv7(**one, cu_seqlens=[])
    with pytest.raises(ValueError, match=r"state: expected shape \(2, 3, 64, 64\), found \(1, 3, 64, 64\)"):
        ops.rwkv7(**one, cu_seqlens=[0, 16, 35])
    with pytest.raises(ValueError, match=r"r: expected shape \(1, 35, 3, 64\), found \(1, 34, 3, 64\)"):
        ops.rwkv7(**dict(one, r=one["r"][:, 1:], state=None, tau=None), cu_seqlens=[0, 16, 35])


def test_too_many_keys():
    with pytest.raises(ValueError, match="key channels per head: expected at most 256, found 300"):
        ops.rwkv7(**random_case(1, 3, 1, 300))


def test_gradients_of_other_shapes():
    with pytest.raises(ValueError, match="dy: expected shape"):
        ops.rwkv7_backward(CASE["v"][:, 1:], **CASE)
    with pytest.raises(TypeError, match="dy: expected float32, found float64"):
        ops.rwkv7_backward(CASE["v"].astype(float), **CASE)
    with pytest.raises(ValueError, match="dstate: expected shape"):
        ops.rwkv7_backward(CASE["v"], **CASE, dstate=CASE["state"][:1])


def test_numbers_beyond_64_bits():
    refuses(ValueError, "position: expected at most 2^62, found 9223372036854775808", position=2**63)
    refuses(ValueError, "chunk: expected at most 2^62", chunk=2**70)
    refuses(ValueError, "cu_seqlens: expected at most 2^62", cu_seqlens=[0, 2**64])


def test_what_is_no_array():
    with pytest.raises(TypeError, match=r"v: expected an array \(batch, time, head, channel\), found none"):
        ops.rwkv7(**dict(CASE, v=None))
    with pytest.raises(TypeError, match=r"state: expected an array \(batch, head, value, key\), found float"):
        ops.neutralize(2.5, 1.0)
    with pytest.raises(TypeError, match="rule: expected a name, found 5"):
        ops.delta_rule(CASE["r"], CASE["k"], CASE["v"], CASE["w"][..., 0], rule=5)
    token = {n: CASE[n][:, 0] for n in "rwkvab"}
    with pytest.raises(ValueError, match=r"k: expected \(batch, head, channel\), found shape \(3, 64\)"):
        ops.step(**dict(token, k=token["k"][0]), state=CASE["state"], position=0)
    with pytest.raises(ValueError, match="chunk: expected at least 1, found 0"):
        ops.step(**token, state=CASE["state"], position=0, tau=np.ones((2, 3), np.float32), chunk=0)


def test_a_decay_of_a_shape_without_end_is_refused_at_once():
    huge = np.broadcast_to(CASE["w"][:1], (2**44, 35, 3, 64))
    refuses(ValueError, "w: expected shape (2, 35, 3, 64)", w=huge)


def test_nothing_is_allocated_for_an_array_of_a_shape_without_end():
    """That numpy could not give: the error would be a MemoryError."""
    huge = np.broadcast_to(CASE["v"][:1], (2**44, 35, 3, 64))
    found = f"expected shape (2, 35, 3, 64), found ({2**44}, 35, 3, 64)"
    for settings in ({}, {"tau": 2.0}, {"decay": "log"}, {"position": 16}, {"decay": "log", "tau": 2.0, "position": 16}):
        refuses(ValueError, f"v: {found}", v=huge, **settings)
    with pytest.raises(ValueError, match="dy: expected shape"):
        ops.rwkv7_backward(np.broadcast_to(CASE["v"][..., :1], (2, 35, 3, 2**44)), **CASE)
    channels = np.broadcast_to(CASE["a"][..., :1], (2, 35, 3, 2**44))
    refuses(ValueError, f"a: expected shape (2, 35, 3, 64), found (2, 35, 3, {2**44})", a=channels)
    beta = CASE["w"][..., 0]
    for rule in ("deltanet", "gated_deltanet", "kda"):
        with pytest.raises(ValueError, match=r"v: expected shape \(2, 35, 3, 64\)"):
            ops.delta_rule(CASE["r"], CASE["k"], huge, beta, CASE["w"], rule=rule)
        with pytest.raises(ValueError, match=r"beta: expected shape \(2, 35, 52776558133248\), found \(2, 35, 3\)"):
            heads = np.broadcast_to(CASE["v"][:, :, :1], (2, 35, 3 * 2**44, 64))
            ops.delta_rule(CASE["r"], CASE["k"], heads, beta, CASE["w"], rule=rule)


def test_hostile_arguments_are_refused():
    hostile.expect_no_faults("numpy")


def test_the_layout_of_states_is_said_first():
    """(key, value) cannot be told from (value, key): the first line of the docstring says which."""
    for function in (ops.rwkv7, ops.delta_rule):
        assert "states are (batch, head, value, key)" in function.__doc__.splitlines()[0]


def test_sizes_that_no_memory_has():
    one = random_case(1, 1, 1, 64, state=False)
    huge = {n: np.broadcast_to(x, (1 << 20, 1 << 20, 1, 64)) for n, x in one.items() if n not in ("tau", "state")}
    with pytest.raises(MemoryError):
        ops.rwkv7(**huge)


def test_inputs_may_be_read_only():
    locked = {}
    for name, x in CASE.items():
        locked[name] = x.copy()
        locked[name].flags.writeable = False
    assert np.array_equal(ops.rwkv7(**locked)[0], ops.rwkv7(**CASE)[0])


def test_works_after_a_fork():
    case = random_case(2, 200, 3, 64, chunks=12)
    expected = ops.rwkv7(**case)
    child = os.fork()
    if child == 0:
        os._exit(0 if all(np.array_equal(x, y) for x, y in zip(ops.rwkv7(**case), expected)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
