"""Inputs like a model's, and the rule that says how close a result must be."""

import numpy as np

NAMES = ("r", "w", "k", "v", "a", "b")


def random_case(batch=1, time=35, heads=2, keys=64, values=None, seed=0, state=True, chunks=None):
    """r, w, k, v, a, b, tau, state of rwkv7 as float32."""
    rng = np.random.default_rng(seed)
    shape = (batch, time, heads, keys)
    kappa = rng.standard_normal(shape)
    kappa /= np.linalg.norm(kappa, axis=-1, keepdims=True) + 1e-12
    r, k = 0.3 * rng.standard_normal(shape), 0.3 * rng.standard_normal(shape)
    v = 0.3 * rng.standard_normal((batch, time, heads, values or keys))
    a, b = -kappa, kappa * rng.uniform(0, 1, shape)
    w = rng.uniform(0.6, 1, shape)
    chunks = time // 16 if chunks is None else chunks
    tau = rng.uniform(1, 2, (batch, chunks, heads))
    s = rng.standard_normal((batch, heads, values or keys, keys))
    case = dict(zip(NAMES, (r, w, k, v, a, b)), tau=tau, state=s if state else None)
    return {name: None if x is None else x.astype(np.float32) for name, x in case.items()}


def random_gated_case(rule, time=35, heads=4, key_heads=2, keys=32, values=24, seed=0):
    """The arguments of delta_rule as float32; decays also near 0."""
    rng = np.random.default_rng(seed)
    unit = rng.standard_normal((1, time, key_heads, keys))
    case = {
        "r": 0.3 * rng.standard_normal(unit.shape),
        "k": unit / np.linalg.norm(unit, axis=-1, keepdims=True),
        "v": rng.standard_normal((1, time, heads, values)),
        "beta": rng.uniform(0, 2, (1, time, heads)),
        "tau": rng.uniform(1, 2, (1, time // 16, heads)),
        "state": rng.standard_normal((1, heads, values, keys)),
    }
    if rule != "deltanet":
        shape = (1, time, heads) if rule == "gated_deltanet" else (1, time, heads, keys)
        case["w"] = np.exp(-(rng.uniform(0, 2, shape) ** 3))
    return {name: x.astype(np.float32) for name, x in case.items()}


def in_double(case):
    return {name: x.astype(np.float64) if isinstance(x, np.ndarray) else x for name, x in case.items()}


def check_close(name, found, plain, truth):
    """The rule of docs/numerics.md: at most twice the error of the plain computation in the same type."""
    found, plain, truth = (np.asarray(x, np.float64) for x in (found, plain, truth))
    assert found.shape == truth.shape, name
    if truth.size == 0:
        return
    largest = np.abs(truth).max()
    allowed = 2 * np.abs(plain - truth).max() + 4 * np.finfo(np.float32).eps * largest
    error = np.abs(found - truth).max()
    assert error <= allowed, f"{name}: expected an error of at most {allowed}, found {error}"


def check_units(name, found, truth, dtype=np.float32):
    """Computed from the same numbers in the same precision, in another order: a few units in the last place of the largest."""
    found, truth = np.asarray(found, np.float64), np.asarray(truth, np.float64)
    error, allowed = np.abs(found - truth).max(), 4 * np.finfo(dtype).eps * np.abs(truth).max()
    assert error <= allowed, f"{name}: expected an error of at most {allowed}, found {error}"


def relative_error(found, truth):
    """Of the norm of the difference."""
    found, truth = np.asarray(found, np.float64), np.asarray(truth, np.float64)
    return np.linalg.norm(found - truth) / max(np.linalg.norm(truth), 1e-300)
