"""Delta-rule language models at any length, and the recurrence with SANE as exact operators.

    deltasane.ops      the recurrence on torch tensors and numpy arrays, forward and backward
    deltasane.compat   the same under the names of RWKV-LM, flash-linear-attention and rwkv_ops
"""

import importlib

from ._ops import set_threads, threads

_SUBMODULES = ("compat", "hf", "ops")


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'deltasane' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBMODULES])
