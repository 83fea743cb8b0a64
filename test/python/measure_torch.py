"""What the torch operator costs on a GPU, and what a model learns with it.

    measure_torch.py calls               the host's time of a call of 16 tokens, beside operators of the same arguments
                                         that compute nothing: what torch itself takes. Also with --device cpu
    measure_torch.py parts               the host's time of the parts of a call of 16 tokens without gradients
    measure_torch.py kernel [--bench F]  times at the shapes of `deltasane bench kernel --device cuda --json`, whose
                                         output F has
    measure_torch.py training            200 steps of a small model beside RWKV-LM's operator, or where it is not there
                                         beside its formula in plain torch

--peers FOLDER: other operators, compiled and measured where their sources are: RWKV-LM's rwkv7_clampw_v3.cpp and
rwkv7_clampw_v3_for_h100.cu in rwkv_lm/, wkv7_sane_torch.py with its sources of rwkv_ops in rwkv_ops/. And
flash-linear-attention, where it can be imported; it comes last, as it tunes itself for minutes. --only NAME: one of
deltasane, RWKV-LM, rwkv_ops, fla.
"""

import argparse
import functools
import json
import math
import os
import statistics
import sys
import time

import torch

from deltasane import ops

SHAPES = ((8, 4096, 16), (1, 4096, 16))
OPERATORS = ("deltasane", "RWKV-LM", "rwkv_ops", "fla")


def vectors(batch, time_, heads, dtype=torch.bfloat16, grad=True, seed=0, device="cuda"):
    """r, w, k, v, a, b, w as the decay; numbers like those of a trained model."""
    torch.manual_seed(seed)
    shape = (batch, time_, heads, 64)
    uniform = lambda low, high: torch.rand(shape, device=device) * (high - low) + low  # noqa: E731
    made = [uniform(-1, 1), uniform(0.8, 0.999), uniform(-0.2, 0.2), uniform(-0.9, 0.9), uniform(-0.2, 0), uniform(0, 0.15)]
    return [x.to(torch.float32 if i == 1 else dtype).requires_grad_(grad) for i, x in enumerate(made)]


def seconds_on_gpu(body, calls=10, repeats=15):
    """(median of a call in a full queue, median of a call alone)."""
    body(), body()
    full, alone = [], []
    for _ in range(repeats):
        for count, found in ((calls, full), (1, alone)):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            if count > 1:
                torch.cuda._sleep(4_000_000)  # the host is ahead of the GPU, as in training
            begin.record()
            for _ in range(count):
                body()
            end.record()
            torch.cuda.synchronize()
            found.append(begin.elapsed_time(end) / count * 1e-3)
    return statistics.median(full), statistics.median(alone)


def operator_times(run, inputs, dy):
    """Of the forward pass that saves what backward needs, and of the backward pass."""
    forward = seconds_on_gpu(lambda: run(*inputs))
    y = run(*inputs)
    backward = seconds_on_gpu(lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True))
    return forward, backward


def rwkv_lm_kernel(folder):
    """RWKV-LM's operator, on (batch, time, head, 64) and w before its activation, all bfloat16."""
    from torch.utils.cpp_extension import load

    flags = ["-D_N_=64", "-D_CHUNK_LEN_=16", "--use_fast_math", "-O3", "-Xptxas -O3", "--extra-device-vectorization"]
    files = [os.path.join(folder, "rwkv_lm", f"rwkv7_clampw_v3{rest}") for rest in ("_for_h100.cu", ".cpp")]
    load(name="rwkv7_clampw_v3", sources=files, is_python_module=False, extra_cuda_cflags=flags)
    kernels = torch.ops.rwkv7_clampw_v3

    class Peer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            batch, time_, heads, _ = inputs[0].shape
            y = torch.empty_like(inputs[3])
            s = torch.empty(batch, heads, time_ // 16, 64, 64, dtype=torch.float32, device=y.device)
            sa = torch.empty(y.shape, dtype=torch.float32, device=y.device)
            kernels.forward(*inputs, y, s, sa)
            ctx.save_for_backward(*inputs, s, sa)
            return y

        @staticmethod
        def backward(ctx, dy):
            *inputs, s, sa = ctx.saved_tensors
            gradients = [torch.empty_like(x) for x in inputs]
            kernels.backward(*inputs, dy.contiguous(), s, sa, *gradients)
            return tuple(gradients)

    return Peer.apply


def before_clampw(w):
    """What gives the decay w as exp(-exp(-1/2) sigmoid(x))."""
    share = -torch.log(w) / math.exp(-0.5)
    return torch.log(share) - torch.log1p(-share)


def rwkv_ops_kernel(folder, tau):
    """rwkv_ops' operator with SANE; w before its activation, all but tau bfloat16."""
    sys.path[:0] = [folder, os.path.join(folder, "rwkv_ops")]
    from wkv7_sane_torch import get_torch_generalized_delta_rule_sane

    made = get_torch_generalized_delta_rule_sane(64, 16)
    run = made[0] if isinstance(made, (tuple, list)) else made
    mask = torch.ones(tau.shape[:2], device=tau.device)
    return lambda *x: run(*x, tau, mask=mask)[0]


def peer(name, folder, tau):
    """(function of r, w, k, v, a, b, what it wants as w, given the decay, whether with SANE)."""
    if name == "RWKV-LM":
        return rwkv_lm_kernel(folder), lambda w: before_clampw(w).bfloat16(), False
    if name == "rwkv_ops":
        return rwkv_ops_kernel(folder, tau), lambda w: torch.log(-torch.log(w)).bfloat16(), True
    from fla.ops.rwkv7 import chunk_rwkv7

    return lambda *x: chunk_rwkv7(*x)[0], lambda w: torch.log(w).bfloat16(), False


def measure_kernel(options):
    rows = json.load(open(options.bench))["rows"] if options.bench else []
    engine = {
        (row["pass"], row["sane"], row["batch"], row["time"], row["heads"]): row["seconds"] for row in rows
    }  # fmt: skip
    print("operator | (B,T,H) | SANE | pass | ms in a full queue | ms alone | ms of the engine | difference")
    for name in OPERATORS if options.only is None else (options.only,):
        for shape in SHAPES:
            inputs = vectors(*shape)
            dy = torch.randn(*shape, 64, device="cuda").bfloat16()
            tau = torch.full((shape[0], shape[1] // 16, shape[2]), 3.0, device="cuda")
            try:
                if name == "deltasane":
                    cases = [(sane, functools.partial(_own, tau if sane else None)) for sane in (True, False)]
                else:
                    run, convert, sane = peer(name, options.peers, tau)
                    inputs[1] = convert(inputs[1].detach()).requires_grad_()
                    cases = [(sane, run)]
                times = [operator_times(run, inputs, dy) for _, run in cases]
            except Exception as error:
                print(f"{name} | {shape} | not measured: {str(error).splitlines()[0]}", flush=True)
                continue
            for (sane, _), passes in zip(cases, times):
                for pass_, (full, alone) in zip(("saving forward", "backward"), passes):
                    own = engine.get((pass_, sane, *shape)) if name == "deltasane" else None
                    more = f"{own * 1e3:.4f} | {100 * (full / own - 1):+.1f} %" if own else "- | -"
                    row = f"{name} | {shape} | {'yes' if sane else 'no'} | {pass_} | {full * 1e3:.4f} | {alone * 1e3:.4f}"
                    print(f"{row} | {more}", flush=True)


def _own(tau, r, w, k, v, a, b):
    return ops.rwkv7(r, w, k, v, a, b, tau=tau)[0]


def empty_operator(inputs):
    """An operator of the same tensors that allocates its results and computes nothing, registered as torch's own are."""
    library = torch.library.Library("deltasane_empty", "FRAGMENT")
    names = ", ".join(f"Tensor x{i}" for i in range(len(inputs)))
    library.define(f"both({names}) -> (Tensor, Tensor)")
    library.impl("both", _empty_results, inputs[0].device.type.upper())
    torch.library.register_autograd(
        "deltasane_empty::both", _empty_gradients, lib=library,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )  # fmt: skip
    return library, torch.ops.deltasane_empty.both


def _empty_results(*x):
    return torch.empty_like(x[3]), x[1].new_empty((x[3].shape[0], x[3].shape[2], 64, 64))


def _empty_gradients(context, *_):
    return tuple(torch.empty_like(x) for x in context.saved_tensors)


class EmptyFunction(torch.autograd.Function):
    """The same as an autograd.Function."""

    @staticmethod
    def forward(context, *x):
        context.save_for_backward(*x)
        return _empty_results(*x)

    backward = staticmethod(_empty_gradients)


def host_microseconds(bodies, calls=100, rounds=40, warm_seconds=1.0):
    """(median, least) of each, from rounds in turn, so that all meet the same clocks and the same load of others."""
    found = [[] for _ in bodies]
    warm = time.perf_counter() + warm_seconds
    while time.perf_counter() < warm:
        for body in bodies:
            body()
    for _ in range(rounds):
        for body, times in zip(bodies, found):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                body()
            times.append((time.perf_counter() - begin) / calls * 1e6)
    return [(statistics.median(times), min(times)) for times in found]


def passes_of(run, free, given, dy):
    """Without gradients, forward with them, and backward."""
    y = run(*given)
    return lambda: run(*free), lambda: run(*given), lambda: torch.autograd.grad(y, given, dy, retain_graph=True)


def measure_calls(options):
    inputs = vectors(1, 16, 1, torch.float32 if options.device == "cpu" else torch.bfloat16, device=options.device)
    tau = torch.ones(1, 1, 1, device=options.device, requires_grad=True)
    dy = torch.randn_like(inputs[3])
    given = *inputs, tau
    free = [x.detach() for x in given]
    library, operator = empty_operator(given)
    token = [x[:, :1].float().cpu().contiguous() for x in free[:-1]]
    arrays = [x.numpy() for x in token]
    rows = {
        "deltasane.ops.rwkv7": passes_of(lambda *x: _own(x[-1], *x[:-1]), free, given, dy),
        "an operator that computes nothing": passes_of(lambda *x: operator(*x)[0], free, given, dy),
        "an autograd.Function that computes nothing": passes_of(lambda *x: EmptyFunction.apply(*x)[0], free, given, dy),
        "torch.add": (lambda: torch.add(dy, dy),),
        "torch.empty_like": (lambda: torch.empty_like(dy),),
        "deltasane.ops.rwkv7, one token on the CPU, torch tensors": (lambda: ops.rwkv7(*token),),
        "deltasane.ops.rwkv7, one token on the CPU, numpy arrays": (lambda: ops.rwkv7(*arrays),),
        "deltasane.ops.rwkv7, one token on the CPU, numpy arrays, with tau": (lambda: ops.rwkv7(*arrays, tau=2.0),),
    }
    found = iter(host_microseconds([body for passes in rows.values() for body in passes]))
    print("us of the host a call, median (least) | without gradients | forward | backward")
    for name, passes in rows.items():
        print(name, *("{:.1f} ({:.1f})".format(*next(found)) for _ in passes), sep=" | ", flush=True)


def measure_parts(options):
    from deltasane.ops import _torch

    inputs = [x.detach() for x in vectors(1, 16, 1, torch.float32 if options.device == "cpu" else torch.bfloat16, device=options.device)]
    tau = torch.ones(1, 1, 1, device=options.device)
    arrays = *inputs, None, tau, None, None, None
    settings = [], [], 16, "generalized", False, False
    y = inputs[3]
    make = getattr(torch._C._dynamo.guards, f"_empty_strided_{options.device}", None)
    sizes, strides = (1, 1, 64, 64), (4096, 4096, 64, 1)
    bodies = {
        "deltasane.ops.rwkv7": lambda: ops.rwkv7(*inputs, tau=tau),
        "its function of torch tensors": lambda: _torch.direct(arrays, 0, 16, "decay", True),
        "its call of C++": lambda: _torch.calls.run(arrays, 0, 16, "decay", True),
        "the registered operator's call of C++": lambda: _torch.calls.forward((*arrays, *settings), False),
        "a look at the arguments": lambda: _torch.calls.is_usual(arrays, 0, 16),
        "a look at what observes torch": _torch._is_observed,
        "torch.compiler.is_compiling": torch.compiler.is_compiling,
        "torch.is_grad_enabled": torch.is_grad_enabled,
        "requires_grad of one tensor": lambda: y.requires_grad,
        "y allocated and freed": lambda: torch.empty_like(y),
        "the state allocated and freed": lambda: make and make(sizes, strides, torch.float32),
        "torch.add": lambda: torch.add(y, y),
        "torch.add into a given result": lambda: torch.add(y, y, out=y),
        "nothing": lambda: None,
    }
    if options.device == "cuda":
        bodies["a launch (torch.cuda._sleep)"] = lambda: torch.cuda._sleep(1)
    print("us of the host, median (least)")
    for name, (median, least) in zip(bodies, host_microseconds(list(bodies.values()))):
        print(f"{name} | {median:.2f} ({least:.2f})", flush=True)


def plain_recurrence(r, w, k, v, a, b):
    """RWKV-LM's formula in torch's own operations; w is the decay."""
    state, ys = r.new_zeros(r.shape[0], r.shape[2], v.shape[3], k.shape[3]), []
    for t in range(r.shape[1]):
        sa = state @ a[:, t, :, :, None]
        state = state * w[:, t, :, None, :] + sa * b[:, t, :, None, :] + v[:, t, :, :, None] * k[:, t, :, None, :]
        ys.append((state @ r[:, t, :, :, None])[..., 0])
    return torch.stack(ys, 1)


def as_in_rwkv_lm(run, nudged=False):
    """run(r, w, k, v, a, b) on bfloat16 and whole chunks. nudged: numbers differ by up to half a unit of bfloat16."""

    def recurrence(r, w, k, v, a, b):
        time_ = r.shape[1]
        found = [torch.nn.functional.pad(x, (0, 0, 0, 0, 0, -time_ % 16)) for x in (r, before_clampw(w), k, v, a, b)]
        if nudged:
            found = [x * (1 + 2**-9 * (2 * torch.rand_like(x) - 1)) for x in found]
        return run(*(x.bfloat16().contiguous() for x in found))[:, :time_].float()

    return recurrence


class Replaced:
    """deltasane.ops with another recurrence, without SANE."""

    tau = staticmethod(ops.tau)

    def __init__(self, recurrence):
        self.recurrence = recurrence

    def rwkv7(self, r, w, k, v, a, b, *, decay, tau):
        assert decay == "rwkv"
        return self.recurrence(r, torch.exp(-torch.exp(w)), k, v, a, b), None


def losses(recurrence, steps):
    """Of the model in examples/python/train_with_sane.py."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python"))
    import train_with_sane as example

    example.ops = Replaced(recurrence)
    return [loss.item() for loss in example.training_losses(steps, channels=128, alpha=3.0, device="cuda")]


def measure_training(options):
    if options.peers:
        theirs = rwkv_lm_kernel(options.peers)
        own = lambda r, w, *rest: ops.rwkv7(r, w.float(), *rest, decay="clampw")[0]  # noqa: E731
        curves = {
            "deltasane": as_in_rwkv_lm(own), "RWKV-LM": as_in_rwkv_lm(theirs), "RWKV-LM, nudged": as_in_rwkv_lm(theirs, True),
        }  # fmt: skip
    else:
        curves = {"deltasane": lambda *x: ops.rwkv7(*x)[0], "plain torch": plain_recurrence}
    found = {name: losses(recurrence, options.steps) for name, recurrence in curves.items()}
    for step in (1, 2, 5, 10, 20, 50, 100, 150, 200):
        if step <= options.steps:
            print(f"step {step:4d}: " + ", ".join(f"{name} {values[step - 1]:.6f}" for name, values in found.items()))
    tail = options.steps // 4
    print(f"mean of the last {tail}: " + ", ".join(f"{name} {statistics.mean(x[-tail:]):.6f}" for name, x in found.items()))
    base = list(found.values())[1]
    for name, values in found.items():
        if values is not base:
            largest = max(abs(x - y) for x, y in zip(values, base))
            mean = statistics.mean(abs(x - y) for x, y in zip(values, base))
            print(f"{name} from {list(found)[1]}: {mean:.2e} in the mean, {largest:.2e} at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("calls", "parts", "kernel", "training"))
    parser.add_argument("--bench", help="the JSON of deltasane bench kernel")
    parser.add_argument("--peers", help="a folder with sources of other operators")
    parser.add_argument("--device", default="cuda", help="of calls and parts: cuda or cpu")
    parser.add_argument("--only", choices=OPERATORS, help="one operator")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    {"calls": measure_calls, "parts": measure_parts, "kernel": measure_kernel, "training": measure_training}[options.what](options)


if __name__ == "__main__":
    main()
