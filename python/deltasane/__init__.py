"""Delta-rule language models at any length, and the recurrence with SANE as exact operators.

    deltasane.ops      the recurrence on torch tensors and numpy arrays, forward and backward
    deltasane.Model    the engine: read, score and write text; states as values
    deltasane.Trainer  training runs, step by step
    deltasane.compat   the operator under the names of RWKV-LM, flash-linear-attention and rwkv_ops
"""

import importlib

_HOME = {
    "Error": "errors", "UsageError": "errors", "FileError": "errors", "DeviceError": "errors",
    "StateOverflow": "errors", "Model": "model", "Tokenizer": "model", "Generated": "model", "ChatEvent": "model",
    "State": "states",
    "Trainer": "trainer", "set_threads": "_ops", "threads": "_ops",
}  # fmt: skip
_SUBMODULES = ("compat", "errors", "hf", "lm_eval", "ops")


def build():
    """Version, and whether the operators and the engine were built with CUDA."""
    from . import _engine, _ops

    return {"version": _engine.version(), "cuda": _ops.cuda}


def __getattr__(name):
    if name == "__version__":
        return build()["version"]
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module 'deltasane' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), "__version__", *_HOME, *_SUBMODULES])
