"""The recurrence on torch tensors of the CPU: what the operators of _torch do there, for all rules and strides."""

import torch

from .. import _ops


def _address(x):
    """What the extension takes for a tensor: (address, shape, strides)."""
    return None if x is None else (x.data_ptr(), x.shape, x.stride())


def _packed_channels(x):
    """The kernels need a head's channels one after another."""
    if x is not None and x.ndim == 4 and x.stride(3) != 1:
        return x.clone(memory_format=torch.contiguous_format)
    return x


def forward(*arguments):
    arrays, (position, cu_seqlens, chunk, rule, definition, _) = arguments[:11], arguments[11:]
    arrays = tuple(map(_packed_channels, arrays))
    k, v = arrays[2], arrays[3]
    y = v.new_empty(v.shape)
    rows = len(cu_seqlens) - 1 if cu_seqlens else v.shape[0]
    state = v.new_empty((rows, v.shape[2], v.shape[3], k.shape[-1]))
    addresses = tuple(map(_address, arrays))
    results = _address(y), _address(state)
    if definition:
        _ops.definition(v.dtype == torch.float64, rule, addresses, position, cu_seqlens, chunk, results)
    else:
        _ops.forward(rule, addresses, position, cu_seqlens, chunk, results)
    return y, state, None


def backward(dy, dstate, *arguments):
    arrays = tuple(map(_packed_channels, arguments[:11]))
    position, cu_seqlens, chunk, rule, definition, _, wanted = arguments[11:]
    v = arrays[3]
    results = [x.new_empty(x.shape) if want and x is not None else None for x, want in zip(arrays, wanted)]
    addresses = tuple(map(_address, arrays))
    dy, dstate = _packed_channels(dy), _packed_channels(dstate)
    given = _address(dy), _address(dstate)
    outputs = tuple(map(_address, results))
    if definition:
        _ops.definition_backward(
            v.dtype == torch.float64, rule, addresses, position, cu_seqlens, chunk, given, outputs
        )
    else:
        _ops.backward(rule, addresses, position, cu_seqlens, chunk, given, outputs)
    return results
