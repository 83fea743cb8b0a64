"""The operator in the layers of flash-linear-attention."""

import functools
import importlib

from . import fla


def _with_sane(function, tau):
    @functools.wraps(function)
    def call(*arguments, **named):
        if tau is not None and named.get("initial_state") is not None:
            raise NotImplementedError(
                "initial_state: expected none with tau, as fla's layers do not say at which position a state is"
            )
        return function(*arguments, **named, tau=tau)

    return call


def patch_fla(tau=None):
    """Lets fla's RWKV-7 layers use this operator from now on, with SANE where tau is given: (head) or a number.

    With tau the layers train and read whole texts; they cannot continue from a state.
    """
    layers = importlib.import_module("fla.layers.rwkv7")
    for name in ("chunk_rwkv7", "fused_mul_recurrent_rwkv7"):
        if not hasattr(layers, name):
            raise ImportError(f"fla.layers.rwkv7: expected {name} in it, as fla 0.6 has, found none")
        setattr(layers, name, _with_sane(getattr(fla, name), tau))
