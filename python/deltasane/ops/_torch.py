"""The recurrence as a torch operator: deltasane::delta_rule and its backward pass.

Registered by Library.define and impl, which cost less per call than torch.library.custom_op. The
operators return new tensors and change nothing in place. Where nobody looks at the operator (no compiler, mode or
subclass of tensors), an autograd.Function calls the same kernels: that takes a tenth of the time per call.
"""

import math
import warnings

import torch

from .. import _ops
from . import _torch_gpu
from ._calls import DIFFERENTIABLE, Arrays

xp = torch

_TYPES = (torch.float32, torch.bfloat16)
_ALWAYS_FLOAT32 = ("w", "tau", "state")


def _check_tensor(name, x, device):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: expected a torch tensor, found {type(x).__name__}")
    if x.is_nested or x.layout != torch.strided:
        raise TypeError(f"{name}: expected a dense tensor, found {'nested' if x.is_nested else x.layout}")
    if x.device != device:
        raise ValueError(f"{name}: expected a tensor on {device} like r, found one on {x.device}")


def _real_type(r, definition):
    """The type of r, which most arrays share."""
    device = r.device
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"r: expected a tensor on cpu or cuda, found one on {device}")
    if device.type == "cuda" and not _ops.cuda:
        raise RuntimeError("r: this build of deltasane has no CUDA; use tensors on the CPU, or build it where nvcc is")
    if definition and device.type != "cpu":
        raise ValueError(f"r: the definition runs on the CPU only, found a tensor on {device}")
    known = (torch.float32, torch.float64) if definition else _TYPES
    if r.dtype not in known:
        raise TypeError(f"r: expected {' or '.join(map(str, known))}, found {r.dtype}")
    return r.dtype


def _expected_types(real, definition, device_type):
    """[(name, type)] of the arrays that have gradients."""
    always = (*_ALWAYS_FLOAT32, "beta") if device_type == "cuda" else _ALWAYS_FLOAT32
    names = Arrays._fields[:DIFFERENTIABLE]
    return [(name, torch.float32 if name in always and not definition else real) for name in names]


_EXPECTED = {
    (real, definition, device): _expected_types(real, definition, device)
    for real in (torch.float32, torch.bfloat16, torch.float64) for definition in (False, True) for device in ("cpu", "cuda")
}  # fmt: skip


def checked(arrays, definition):
    device = arrays.r.device
    real = _real_type(arrays.r, definition)
    found = list(arrays)
    for i, (name, wanted) in enumerate(_EXPECTED[real, definition, device.type]):
        x = arrays[i]
        if x is None:
            continue
        if name == "tau" and isinstance(x, (int, float)):
            x = found[i] = _tau_number(x, wanted, device)
        _check_tensor(name, x, device)
        if x.dtype != wanted:
            raise TypeError(f"{name}: expected {wanted}, found {x.dtype}")
    for i in range(DIFFERENTIABLE, len(arrays)):
        if arrays[i] is not None:
            found[i] = _checked_mask(Arrays._fields[i], arrays[i], device)
    return found


def _checked_mask(name, x, device):
    _check_tensor(name, x, device)
    if x.dtype not in (torch.bool, torch.uint8):
        raise TypeError(f"{name}: expected torch.bool, found {x.dtype}")
    return x.to(torch.uint8)


def _tau_number(x, dtype, device):
    """Filled where it is used: a copy from the host would wait, and cannot be captured in a graph."""
    if not 0 < x < math.inf:
        raise ValueError(f"tau: expected a finite number above 0, found {x}")
    return torch.full((), x, dtype=dtype, device=device)


def spread(tau, shape):
    if tau.ndim == 1 and tau.shape[0] != shape[2]:
        raise ValueError(f"tau: expected ({shape[2]},), one for each head, found {tuple(tau.shape)}")
    return tau.expand(shape)


def zeros(like, shape):
    return torch.zeros(shape, dtype=like.dtype, device=like.device)


def tau(x, weight, alpha):
    z = (x @ weight).double()
    return (1 - alpha * torch.nn.functional.logsigmoid(-z)).float()


_warned = False


def _widened(arrays):
    """A CPU computes in float32."""
    global _warned
    if not torch.compiler.is_compiling() and not _warned:
        _warned = True
        warnings.warn("deltasane.ops: bfloat16 on a CPU is computed in float32, and y rounded", stacklevel=5)
    return Arrays(*(x.float() if x is not None and x.dtype == torch.bfloat16 else x for x in arrays))


def forward(call):
    arrays = call.arrays
    real = arrays.v.dtype
    on_cpu = arrays.v.device.type == "cpu"
    if on_cpu and real == torch.bfloat16:
        arrays = _widened(arrays)
    if not torch.compiler.is_compiling() and _transform() is not None:
        raise NotImplementedError(
            "deltasane.ops: transforms of torch.func (vmap, grad) are not available; use the batch dimension, and torch.autograd"
        )
    needs_gradient = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in arrays)
    settings = call.position, call.cu_seqlens, call.chunk, call.rule, call.definition, call.keep and needs_gradient
    if not _is_plain(arrays):
        y, state, _ = torch.ops.deltasane.delta_rule(*arrays, *settings)
    elif needs_gradient:
        y, state = _apply(*arrays, settings)
    else:
        y, state, _ = (_forward_cpu if on_cpu else _torch_gpu.forward)(*arrays, *settings)
    return y.to(real) if y.dtype != real else y, state


def _is_plain(arrays):
    """Whether nobody looks at the operator: see above."""
    return (
        not torch.compiler.is_compiling()
        and _dispatch_modes() == 0
        and all(x is None or type(x) in _PLAIN_TYPES for x in arrays)
    )


_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
# Not public; where torch has no such functions, the operator is always used.
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_transform = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)


_ARRAYS = (
    "Tensor r, Tensor? w, Tensor k, Tensor v, Tensor? a, Tensor? b, Tensor? beta, Tensor? tau, Tensor? state, "
    "Tensor? mask, Tensor? neutralize, SymInt[] position, SymInt[] cu_seqlens, int chunk, str rule, bool definition"
)
_library = torch.library.Library("deltasane", "FRAGMENT")
_library.define(f"delta_rule({_ARRAYS}, bool keep) -> (Tensor, Tensor, Tensor)")
_library.define(f"delta_rule_backward(Tensor dy, Tensor? dstate, {_ARRAYS}, Tensor kept, bool[] wanted) -> Tensor[]")


def _address(x):
    """What the extension takes for a tensor: (address, shape, strides)."""
    return None if x is None else (x.data_ptr(), x.shape, x.stride())


def _packed_channels(x):
    """The kernels need a head's channels one after another."""
    if x is not None and x.ndim == 4 and x.stride(3) != 1:
        return x.clone(memory_format=torch.contiguous_format)
    return x


def _states_like(k, v, cu_seqlens, dtype=None):
    rows = len(cu_seqlens) - 1 if cu_seqlens else v.shape[0]
    return v.new_empty((rows, v.shape[2], v.shape[3], k.shape[-1]), dtype=dtype or v.dtype)


def _forward_cpu(*arguments):
    arrays, (position, cu_seqlens, chunk, rule, definition, _) = arguments[:11], arguments[11:]
    arrays = tuple(map(_packed_channels, arrays))
    k, v = arrays[2], arrays[3]
    y = v.new_empty(v.shape)
    state = _states_like(k, v, cu_seqlens)
    addresses = tuple(map(_address, arrays))
    results = _address(y), _address(state)
    if definition:
        _ops.definition(v.dtype == torch.float64, rule, addresses, position, cu_seqlens, chunk, results)
    else:
        _ops.forward(rule, addresses, position, cu_seqlens, chunk, results)
    return y, state, v.new_empty(0)


def _new_gradients(arrays, wanted):
    """New tensors for the gradients that are wanted, empty ones for others."""
    return [x.new_empty(x.shape) if want else arrays[3].new_empty(0) for x, want in zip(arrays, wanted)]


def _backward_cpu(dy, dstate, *arguments):
    arrays = tuple(map(_packed_channels, arguments[:11]))
    position, cu_seqlens, chunk, rule, definition, _, wanted = arguments[11:]
    v = arrays[3]
    results = _new_gradients(arrays, wanted)
    addresses = tuple(map(_address, arrays))
    dy, dstate = _packed_channels(dy), _packed_channels(dstate)
    given = _address(dy), _address(dstate)
    outputs = tuple(_address(x) if want else None for x, want in zip(results, wanted))
    if definition:
        _ops.definition_backward(
            v.dtype == torch.float64, rule, addresses, position, cu_seqlens, chunk, given, outputs
        )
    else:
        _ops.backward(rule, addresses, position, cu_seqlens, chunk, given, outputs)
    return results


def _forward_fake(*arguments):
    k, v, position, cu_seqlens, chunk, _, definition, keep = *arguments[2:4], *arguments[11:]
    state = _states_like(k, v, cu_seqlens, v.dtype if definition else torch.float32)
    if v.device.type != "cuda":
        return v.new_empty(v.shape), state, v.new_empty(0)
    floats = _torch_gpu.kept_floats(*v.shape[:3]) if _torch_gpu.keeps(position, cu_seqlens, chunk, keep) else 0
    return v.new_empty(v.shape), state, v.new_empty(floats, dtype=torch.float32)


def _backward_fake(dy, dstate, *arguments):
    return _new_gradients(arguments[:11], arguments[-1])


def _keep_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:11], output[2])
    ctx.settings = inputs[11:16]
    ctx.set_materialize_grads(False)


def _gradients(ctx, dy, dstate):
    """Of the arrays that have one; None where it is not needed."""
    *arrays, kept = ctx.saved_tensors
    if dy is None:
        dy = torch.zeros_like(arrays[3])
    wanted = [x is not None and need for x, need in zip(arrays[:DIFFERENTIABLE], ctx.needs_input_grad)]
    if torch.is_grad_enabled() or not _is_plain((dy, dstate, *arrays)):
        run = torch.ops.deltasane.delta_rule_backward
    else:
        run = _backward_cpu if dy.device.type == "cpu" else _torch_gpu.backward
    found = run(dy, dstate, *arrays, *ctx.settings, kept, wanted)
    return [x if want else None for x, want in zip(found, wanted)]


def _backward(ctx, dy, dstate, _):
    return *_gradients(ctx, dy, dstate), *[None] * 8


class _Recurrence(torch.autograd.Function):
    """apply(*arrays, settings) -> y, state: what is registered below, without the dispatcher."""

    @staticmethod
    def forward(ctx, *arguments):
        arrays, settings = arguments[:-1], arguments[-1]
        run = _forward_cpu if arrays[3].device.type == "cpu" else _torch_gpu.forward
        output = run(*arrays, *settings)
        _keep_inputs(ctx, (*arrays, *settings), output)
        return output[:2]

    @staticmethod
    def backward(ctx, dy, dstate):
        return *_gradients(ctx, dy, dstate), None, None, None


# Function.apply without its look at every argument for transforms of torch.func, which were refused.
_apply = super(torch.autograd.Function, _Recurrence).apply


def _keep_nothing(ctx, inputs, output):
    pass


def _refuse_second_derivative(ctx, *_):
    raise NotImplementedError("deltasane.ops: second derivatives are not available; use create_graph=False")


_library.impl("delta_rule", _forward_cpu, "CPU")
_library.impl("delta_rule_backward", _backward_cpu, "CPU")
if _ops.cuda:
    _library.impl("delta_rule", _torch_gpu.forward, "CUDA")
    _library.impl("delta_rule_backward", _torch_gpu.backward, "CUDA")
torch.library.register_fake("deltasane::delta_rule", _forward_fake, lib=_library)
torch.library.register_fake("deltasane::delta_rule_backward", _backward_fake, lib=_library)
torch.library.register_autograd("deltasane::delta_rule", _backward, setup_context=_keep_inputs, lib=_library)
torch.library.register_autograd(
    "deltasane::delta_rule_backward", _refuse_second_derivative, setup_context=_keep_nothing, lib=_library
)
