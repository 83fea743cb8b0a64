"""The definition of the recurrence, in float64: plain loops, slow, what every kernel is tested against.

The functions take what those of deltasane.ops take, on the CPU, with all arrays float64 (or all
float32: then every step is rounded to float32). Test a kernel of your own against them.

>>> import numpy as np
>>> from deltasane import ops
>>> r = k = v = a = b = np.zeros((1, 3, 1, 4))
>>> y, state = ops.reference.rwkv7(r, np.ones_like(r), k, v, a, b)
>>> state.dtype
dtype('float64')
"""

from functools import partial

from . import _functions

rwkv7 = partial(_functions.rwkv7, _definition=True)
rwkv7_backward = partial(_functions.rwkv7_backward, _definition=True)
delta_rule = partial(_functions.delta_rule, _definition=True)
delta_rule_backward = partial(_functions.delta_rule_backward, _definition=True)

__all__ = ["delta_rule", "delta_rule_backward", "rwkv7", "rwkv7_backward"]
