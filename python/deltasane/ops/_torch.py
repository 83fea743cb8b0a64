"""The recurrence as a torch operator: deltasane::delta_rule and its backward pass.

Registered by Library.define and impl, which cost less per call than torch.library.custom_op. The
operators return new tensors and change nothing in place. Where nobody looks at the operator (no compiler, mode or
subclass of tensors), an autograd.Function calls the same kernels, without the dispatcher. Usual calls are one call of
the extension (src/python/ops/direct_calls.h); what it does not take goes through _torch_cpu, _torch_gpu and _torch_gated.
"""

import math
import sys
import warnings

import torch
from torch.autograd import forward_ad

from .. import _ops
from . import _torch_cpu, _torch_gated, _torch_gpu
from ._calls import DIFFERENTIABLE, LIBRARIES, Arrays, converted, settings_of

xp = torch
_this = sys.modules[__name__]
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
LIBRARIES.update((plain, _this) for plain in _PLAIN_TYPES)
_is_compiling = torch.compiler.is_compiling

_TYPES = (torch.float32, torch.bfloat16)
_ALWAYS_FLOAT32 = ("w", "tau", "state")


def _check_tensor(name, x, device):
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name}: expected a torch tensor, found {type(x).__name__}")
    if x.is_nested or x.layout != torch.strided:
        raise TypeError(f"{name}: expected a dense tensor, found {'nested' if x.is_nested else x.layout}")
    if x.device != device:
        raise ValueError(f"{name}: expected a tensor on {device} like r, found one on {x.device}")


def array(name, given, like):
    """A dense tensor on the device of `like`."""
    _check_tensor(name, given, like.device)
    return given


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
    return x.view(torch.uint8)  # the same bytes, also where a stride is 0


def _tau_number(x, dtype, device, shape=()):
    """Filled where it is used: a copy from the host would wait, and cannot be captured in a graph."""
    if not 0 < x < math.inf:
        raise ValueError(f"tau: expected a finite number above 0, found {x}")
    return torch.full(shape, x, dtype=dtype, device=device)


def full_tau(x, shape, v):
    return _tau_number(x, torch.float32, v.device, shape)


def spread(tau, shape):
    if tau.ndim == 1 and tau.shape[0] != shape[2]:
        raise ValueError(f"tau: expected ({shape[2]},), one for each head, found {tuple(tau.shape)}")
    return tau.expand(shape)


def zeros(like, shape):
    return torch.zeros(shape, dtype=like.dtype, device=like.device)


def tau(x, weight, alpha):
    for name, given in (("x", x), ("weight", weight)):
        _check_tensor(name, given, x.device)
        if given.dtype not in _TYPES:
            raise TypeError(f"{name}: expected {' or '.join(map(str, _TYPES))}, found {given.dtype}")
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(f"weight: expected {x.dtype} like x, found {weight.dtype}; or use torch.autocast")
    if weight.ndim != 2 or x.ndim < 1 or x.shape[-1] != weight.shape[0]:
        raise ValueError(f"weight: expected (channel, head) with the channels of x, found {tuple(weight.shape)} and {tuple(x.shape)}")
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


def direct(arrays, position, chunk, decay, keep):
    """y and the state where nothing is unusual, else None."""
    if _is_compiling():
        return None
    found = calls.run(arrays, position, chunk, decay, keep)
    if found is None and not _is_observed():
        arrays = converted(_this, arrays, position, chunk, decay)
        found = arrays and calls.run(arrays, position, chunk, "decay", keep)
    if found is None or len(found) == 2:
        return found
    return _apply(*arrays, settings_of(arrays, position, chunk), found)


def forward(call):
    arrays = call.arrays
    real = arrays.v.dtype
    if real == torch.bfloat16 and arrays.v.device.type == "cpu":
        arrays = _widened(arrays)
    if not torch.compiler.is_compiling():
        _refuse_transforms(arrays)
    needs_gradient = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in arrays)
    settings = call.position, call.cu_seqlens, call.chunk, call.rule, call.definition, call.keep and needs_gradient
    if not _is_plain(arrays):
        y, state, _ = torch.ops.deltasane.delta_rule(*arrays, *settings)
    elif needs_gradient:
        y, state = _apply(*arrays, settings, None)
    else:
        y, state, *_ = _forward(*arrays, *settings)
    return y.to(real) if y.dtype != real else y, state


def _refuse_transforms(arrays):
    if _transform() is not None:
        raise NotImplementedError(
            "deltasane.ops: transforms of torch.func (vmap, grad) are not available; use the batch dimension, and torch.autograd"
        )
    if forward_ad._current_level >= 0 and any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in arrays):
        raise NotImplementedError("deltasane.ops: forward-mode derivatives are not available; use torch.autograd.grad")


def _is_plain(arrays):
    """Whether nobody looks at the operator: see above."""
    return (
        not torch.compiler.is_compiling()
        and not _is_observed()
        and all(x is None or type(x) in _PLAIN_TYPES for x in arrays)
    )


# Not public; where torch has no such functions, the operator is always used.
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_transform = getattr(torch._C._functorch, "peek_interpreter_stack", lambda: None)
_trace = getattr(torch._C, "_get_tracing_state", lambda: None)


def _is_observed():
    """Whether a mode, a transform, a trace or forward-mode derivatives would not see a call without the dispatcher."""
    return _dispatch_modes() or _transform() is not None or forward_ad._current_level >= 0 or _trace() is not None


calls = _ops.direct_torch_calls(torch, _ops.cuda and not _torch_gpu.CHECKS_VALUES)

_ARRAYS = (
    "Tensor r, Tensor? w, Tensor k, Tensor v, Tensor? a, Tensor? b, Tensor? beta, Tensor? tau, Tensor? state, "
    "Tensor? mask, Tensor? neutralize, SymInt[] position, SymInt[] cu_seqlens, int chunk, str rule, bool definition"
)
_library = torch.library.Library("deltasane", "FRAGMENT")
_library.define(f"delta_rule({_ARRAYS}, bool keep) -> (Tensor, Tensor, Tensor)")
_library.define(f"delta_rule_backward(Tensor dy, Tensor? dstate, {_ARRAYS}, Tensor kept, bool[] wanted) -> Tensor[]")


def _forward(*arguments):
    """y, the final state, and the states that backward needs, or None. More may follow."""
    return calls.forward(arguments, False) or _general(arguments).forward(*arguments)


def _backward(dy, dstate, *arguments):
    """The gradients of the arrays that have them; None where it is not wanted."""
    return calls.backward((dy, dstate, *arguments)) or _general(arguments).backward(dy, dstate, *arguments)


def _general(arguments):
    if arguments[3].device.type == "cpu":
        return _torch_cpu
    return _torch_gpu if arguments[14] == "generalized" else _torch_gated


def _forward_operator(*arguments):
    """An operator returns tensors only: an empty one instead of None."""
    y, state, kept, *_ = _forward(*arguments)
    return y, state, state.new_empty(0) if kept is None else kept


def _backward_operator(*arguments):
    nothing = arguments[5].new_empty(0)
    return [nothing.clone() if x is None else x for x in _backward(*arguments)]


def _forward_fake(*arguments):
    k, v, position, cu_seqlens, chunk, rule, definition, keep = *arguments[2:4], *arguments[11:]
    rows = len(cu_seqlens) - 1 if cu_seqlens else v.shape[0]
    shape = (rows, v.shape[2], v.shape[3], k.shape[-1])
    state = v.new_empty(shape, dtype=v.dtype if definition else torch.float32)
    kept = 0
    if v.device.type == "cuda" and rule == "generalized" and _torch_gpu.keeps(position, cu_seqlens, chunk, keep):
        kept = _torch_gpu.kept_floats(*v.shape[:3])
    if v.device.type == "cuda" and rule != "generalized" and _torch_gated.keeps(cu_seqlens, keep):
        kept = _torch_gated.kept_floats(*v.shape[:3], k.shape[3], v.shape[3], position[0] if position else 0)
    return v.new_empty(v.shape), state, state.new_empty(kept)


def _backward_fake(dy, dstate, *arguments):
    arrays, wanted = arguments[:11], arguments[-1]
    return [x.new_empty(x.shape) if want else arrays[3].new_empty(0) for x, want in zip(arrays, wanted)]


def _keep_inputs(ctx, inputs, output):
    _keep(ctx, inputs[:11], inputs[11:16], output[2])


def _keep(ctx, arrays, settings, kept):
    ctx.save_for_backward(*arrays, kept)
    ctx.settings = settings
    ctx.set_materialize_grads(False)


def _gradients(ctx, dy, dstate):
    """Of the arrays that have one; None where it is not needed."""
    *arrays, kept = ctx.saved_tensors
    dy = torch.zeros_like(arrays[3]) if dy is None else dy.contiguous()
    if dstate is not None:
        dstate = dstate.contiguous()
    needed = ctx.needs_input_grad[:DIFFERENTIABLE]
    given = dy, dstate, *arrays, *ctx.settings
    if not (torch.is_grad_enabled() or torch.compiler.is_compiling() or _is_observed()):
        found = calls.backward((*given, kept, needed))
        if found is not None:
            return found
        if _is_plain((dy, dstate, *arrays)):
            return _general(given[2:]).backward(*given, kept, needed)
    wanted = [x is not None and need for x, need in zip(arrays, needed)]
    kept = dy.new_empty(0) if kept is None else kept
    found = torch.ops.deltasane.delta_rule_backward(*given, kept, wanted)
    return [x if want else None for x, want in zip(found, wanted)]


def _operator_gradients(ctx, dy, dstate, _):
    return *_gradients(ctx, dy, dstate), *[None] * 8


class _Recurrence(torch.autograd.Function):
    """apply(*arrays, settings, found) -> y, state: what is registered below, without the dispatcher.

    found: what _forward returns, where that is known already.
    """

    @staticmethod
    def forward(ctx, *arguments):
        arrays, settings, found = arguments[:11], arguments[11], arguments[12]
        if found is None:
            found = _forward(*arrays, *settings)
        _keep(ctx, arrays, settings[:5], found[2])
        return found[0], found[1]

    @staticmethod
    def backward(ctx, dy, dstate):
        return *_gradients(ctx, dy, dstate), None, None, None, None


# Function.apply without its look at every argument for transforms of torch.func, which were refused.
_apply = super(torch.autograd.Function, _Recurrence).apply


def _keep_nothing(ctx, inputs, output):
    pass


def _refuse_second_derivative(ctx, *_):
    raise NotImplementedError("deltasane.ops: second derivatives are not available; use create_graph=False")


for _device in ("CPU", "CUDA") if _ops.cuda else ("CPU",):
    _library.impl("delta_rule", _forward_operator, _device)
    _library.impl("delta_rule_backward", _backward_operator, _device)
torch.library.register_fake("deltasane::delta_rule", _forward_fake, lib=_library)
torch.library.register_fake("deltasane::delta_rule_backward", _backward_fake, lib=_library)
torch.library.register_autograd("deltasane::delta_rule", _operator_gradients, setup_context=_keep_inputs, lib=_library)
torch.library.register_autograd(
    "deltasane::delta_rule_backward", _refuse_second_derivative, setup_context=_keep_nothing, lib=_library
)
