"""Calls of deltasane.ops with arguments that nobody should give: random, and the same for the same seed.

    hostile.py numpy|torch|cuda SEED FIRST COUNT

prints the number of each case before it runs, so that the case that ends the process is known. A call may succeed or
raise one of REFUSALS; other exceptions, changed arguments and later results that differ are faults (exit code 1).
"""

import os
import subprocess
import sys
import warnings

import numpy as np
from cases import random_case, random_gated_case

from deltasane import ops

REFUSALS = (ValueError, TypeError, NotImplementedError, MemoryError, OverflowError)
LARGE = 2**24  # bytes: larger ones are neither compared nor changed further
RULES = ("deltanet", "gated_deltanet", "kda")
NUMBERS = (0, -1, 1, 3, 2**31, 2**62, 2**63 - 1, 2**63, -(2**63), 2**70, 1.5, float("nan"), float("inf"), True, None, "16", b"1", [], [0, 1], (5, 5, 5))
ODD_OBJECTS = (None, 0, 2.5, -1.0, float("nan"), float("inf"), "r", [], [[0.5]], {}, object(), ..., np.float32(2))
SETTINGS = {
    "position": (*NUMBERS, [16, 32], np.array([3, 16]), np.zeros(2), np.zeros((2, 2), np.int64)),
    "chunk": (*NUMBERS, 8, 2**40, np.int64(16)),
    "decay": ("log", "rwkv", "clampw", "exp", "", None, 3, b"log", ["log"]),
    "cu_seqlens": (*NUMBERS, [0, 20], [0, 7, 20], [0, 20, 7, 20], [-5, 20], [0, 2**62, 20], [0, 0, 20, 20], np.array([0, 20]), [0, 2**70]),
    "keep": (0, 1, None, "yes", np.ones(2)),
    "rule": (*RULES, "generalized", "gdn", "", None, 5),
    "alpha": (*NUMBERS, -1e300, 1e300),
}


class Numpy:
    """How arrays of numpy are spoilt."""

    functions = ("rwkv7", "delta_rule", "rwkv7_backward", "delta_rule_backward", "step", "neutralize", "statistics", "tau", "reference")
    dtypes = ("f8", "f2", "i4", "i8", "?", "c8", ">f4", "O", "u1", "S4", [("x", "f4")])

    def __init__(self, rng):
        self.rng = rng

    def made(self, x):
        return x

    def bytes_of(self, x):
        return x.tobytes()

    def is_refusal(self, error):
        return isinstance(error, REFUSALS)

    def can_compare(self, x):
        return isinstance(x, np.ndarray) and x.nbytes <= LARGE

    def prepared(self, given):
        """The arguments of a right call in the types that are computed with."""
        return given

    def use(self, results):
        """What else a caller does with them."""

    def one_of(self, options):
        return options[int(self.rng.integers(len(options)))]

    def spoilt(self, x):
        x = np.asarray(x)
        if x.nbytes > LARGE:
            return x
        ways = "values", "type", "shorter", "longer", "fewer axes", "more axes", "empty", "turned", "strides", "broadcast", "misaligned", "locked"
        way = self.one_of(ways)
        axis = int(self.rng.integers(x.ndim)) if x.ndim else None
        if way == "values" and x.size and x.dtype.kind == "f":
            x = x.copy()
            x.flat[int(self.rng.integers(x.size))] = self.one_of((np.nan, np.inf, -np.inf, 3e38, -1.0, 0.0, 1e-45))
        elif way == "type":
            return x.astype(self.one_of(self.dtypes))
        elif way == "shorter" and x.ndim:
            return np.take(x, range(x.shape[axis] - 1), axis)
        elif way == "longer" and x.ndim:
            return np.concatenate([x, x], axis)
        elif way == "fewer axes" and x.ndim and x.shape[axis]:
            return np.asarray(np.take(x, 0, axis))
        elif way == "more axes":
            return x[(None,) * int(self.rng.integers(1, 5))]
        elif way == "empty" and x.ndim:
            return np.take(x, [], axis)
        elif way == "turned":
            return x.transpose(self.rng.permutation(x.ndim))
        elif way == "strides" and x.ndim:
            part = [slice(None)] * x.ndim
            part[axis] = slice(None, None, self.one_of((-1, 2, -3)))
            return x[tuple(part)]
        elif way == "broadcast":
            sizes = [int(n) if n != 1 else self.one_of((1, 2, 2**44)) for n in x.shape]
            return np.broadcast_to(x, sizes) if np.prod(sizes, dtype=float) * 8 < 2**62 else x
        elif way == "misaligned":
            memory = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
            memory[...] = x
            return memory
        elif way == "locked":
            x = x.copy()
            x.flags.writeable = False
        return x


def arguments(name, rng):
    """Those of a right call, as numpy arrays."""
    time, heads, keys = (int(rng.choice(sizes)) for sizes in ((1, 5, 16, 20), (1, 2), (4, 16, 64)))
    definition = name == "reference"
    if definition:
        name = str(rng.choice(["rwkv7", "delta_rule", "rwkv7_backward", "delta_rule_backward"]))
    if name == "tau":
        given = {"x": np.ones((2, 3, 8), np.float32), "weight": np.ones((8, 2), np.float32), "alpha": 3.0}
    elif name in ("neutralize", "statistics"):
        given = {"state": random_case(2, time, heads, keys)["state"], "tau": 2.0}
    elif name == "step":
        one = random_case(2, 1, heads, keys)
        given = {n: one[n][:, 0] for n in "rwkvab"} | {"state": one["state"], "position": 15, "tau": 2.0}
    elif name.startswith("rwkv7"):
        given = random_case(int(rng.integers(1, 3)), time, heads, keys)
    else:
        rule = str(rng.choice(RULES))
        given = random_gated_case(rule, time, 2 * heads, heads, keys, keys) | {"rule": rule}
    if name.endswith("backward"):
        given["dy"], given["dstate"] = np.ones_like(given["v"]), np.ones_like(given["state"])
    if definition:
        given = {n: x.astype(float) if isinstance(x, np.ndarray) else x for n, x in given.items()}
    return getattr(ops.reference if definition else ops, name), given


def hostile_case(library, rng):
    """A function and its arguments, one to three of them spoilt."""
    function, given = arguments(library.one_of(library.functions), rng)
    given = library.prepared({n: library.made(x) if isinstance(x, np.ndarray) else x for n, x in given.items()})
    names = list(given)
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.3:
            name = library.one_of(list(SETTINGS))
            given[name] = library.one_of(SETTINGS[name])
        elif rng.random() < 0.1:
            shape = [int(n) for n in rng.integers(0, 22, 2)]
            given[library.one_of(("mask", "neutralize"))] = library.made(rng.random(shape) < 0.5)
        else:
            name = library.one_of(names)
            x = given[name]
            is_array = hasattr(x, "dtype") and hasattr(x, "ndim")
            given[name] = library.spoilt(x) if is_array and rng.random() < 0.85 else library.one_of(ODD_OBJECTS)
    return function, given


def run_case(library, seed, number):
    """What went wrong, or None."""
    library.rng = rng = np.random.default_rng((seed, number))
    function, given = hostile_case(library, rng)
    small = {n: x for n, x in given.items() if library.can_compare(x)}
    before = {n: library.bytes_of(x) for n, x in small.items()}
    try:
        library.use(function(**given))
    except Exception as error:
        if not library.is_refusal(error):
            return f"{type(error).__name__}: {error}"
    changed = [n for n, x in small.items() if library.bytes_of(x) != before[n]]
    return f"changed: {changed}" if changed else None


def library_named(kind):
    if kind == "numpy":
        return Numpy(None)
    from torch_hostile import Torch

    return Torch(None, {"torch": "cpu"}.get(kind, kind))


def expect_no_faults(kind, seed=1, count=2000):
    """In a process of its own, so that its end is a fault like others."""
    command = [sys.executable, "-X", "faulthandler", os.path.abspath(__file__), kind, str(seed), "0", str(count)]
    found = subprocess.run(command, capture_output=True, text=True)
    faults = [line for line in found.stdout.splitlines() if not line.isdigit()]
    last = found.stdout.split()[-1:]
    assert found.returncode == 0 and last == [str(count - 1)], f"{faults}, the last case {last}: {found.stderr[-2000:]}"


def main():
    kind, (seed, first, count) = sys.argv[1], map(int, sys.argv[2:5])
    library = library_named(kind)
    warnings.simplefilter("ignore")
    usual = {n: library.made(x) for n, x in random_case(2, 35, 3, 64).items()}
    before = [library.bytes_of(x) for x in ops.rwkv7(**usual)]
    faults = 0
    for number in range(first, first + count):
        print(number, flush=True)
        fault = run_case(library, seed, number)
        if fault:
            faults += 1
            print(f"{number}: {fault}", flush=True)
    if [library.bytes_of(x) for x in ops.rwkv7(**usual)] != before:
        print("a usual call has other results than before", flush=True)
        faults += 1
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
