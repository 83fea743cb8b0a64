"""What the torch operator costs on a GPU, and what a model learns with it.

    measure_torch.py calls               the host's time of a call of 16 tokens, beside operators of the same arguments
                                         that compute nothing: what torch itself takes. Also with --device cpu
    measure_torch.py kernel [--bench F]  times at the shapes of `deltasane bench kernel --device cuda --json`, whose
                                         output F has
    measure_torch.py training            200 steps of a small model beside RWKV-LM's formula in plain torch

--peers FOLDER: where rwkv_lm/ has RWKV-LM's wkv7_cuda.cu and wkv7_op.cpp, they are compiled and measured, too; and
flash-linear-attention, where it can be imported.
"""

import argparse
import functools
import json
import os
import statistics
import sys
import time

import torch

from deltasane import ops

SHAPES = ((8, 4096, 16), (1, 4096, 16))


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

    flags = ["-D_C_=64", "-D_CHUNK_LEN_=16", "--use_fast_math", "-O3", "-Xptxas -O3", "--extra-device-vectorization"]
    files = [os.path.join(folder, "rwkv_lm", name) for name in ("wkv7_cuda.cu", "wkv7_op.cpp")]
    load(name="wind_backstepping", sources=files, is_python_module=False, extra_cuda_cflags=flags)
    kernels = torch.ops.wind_backstepping

    class Peer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, r, w, k, v, a, b):
            batch, time_, heads, _ = r.shape
            y = torch.empty_like(v)
            s = torch.empty(batch, heads, time_ // 16, 64, 64, dtype=torch.float32, device=r.device)
            sa = torch.empty(r.shape, dtype=torch.float32, device=r.device)
            kernels.forward(w, r, k, v, a, b, y, s, sa)
            ctx.save_for_backward(w, r, k, v, a, b, s, sa)
            return y

        @staticmethod
        def backward(ctx, dy):
            w, r, k, v, a, b, s, sa = ctx.saved_tensors
            dw, dr, dk, dv, da, db = (torch.empty_like(x) for x in (w, r, k, v, a, b))
            kernels.backward(w, r, k, v, a, b, dy.contiguous(), s, sa, dw, dr, dk, dv, da, db)
            return dr, dw, dk, dv, da, db

    return Peer.apply


def peers(folder):
    """Name, function of r, w, k, v, a, b, and what it wants as w, given the decay."""
    found = []
    if folder and os.path.isdir(os.path.join(folder, "rwkv_lm")):
        before_activation = lambda w: torch.log(-torch.log(w)).bfloat16()  # noqa: E731
        found.append(("RWKV-LM", rwkv_lm_kernel(folder), before_activation))
    try:
        from fla.ops.rwkv7 import chunk_rwkv7

        found.append(("fla", lambda *x: chunk_rwkv7(*x)[0], lambda w: torch.log(w).bfloat16()))
    except Exception as error:
        print(f"fla: not measured: {error}")
    return found


def measure_kernel(options):
    rows = json.load(open(options.bench))["rows"] if options.bench else []
    engine = {
        (row["pass"], row["sane"], row["batch"], row["time"], row["heads"]): row["seconds"] for row in rows
    }  # fmt: skip
    others = peers(options.peers)
    print("operator | (B,T,H) | SANE | pass | ms in a full queue | ms alone | ms of the engine | difference")
    for shape in SHAPES:
        inputs = vectors(*shape)
        dy = torch.randn(*shape, 64, device="cuda").bfloat16()
        tau = torch.full((shape[0], shape[1] // 16, shape[2]), 3.0, device="cuda")
        cases = [("deltasane", sane, functools.partial(_own, tau if sane else None), inputs) for sane in (True, False)]
        for name, run, convert in others:
            made = [convert(x.detach()).requires_grad_() if i == 1 else x for i, x in enumerate(inputs)]
            cases.append((name, False, run, made))
        for name, sane, run, given in cases:
            try:
                times = operator_times(run, given, dy)
            except Exception as error:
                print(f"{name} | {shape} | not measured: {str(error).splitlines()[0]}", flush=True)
                continue
            for pass_, (full, alone) in zip(("saving forward", "backward"), times):
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


def host_microseconds(body, calls=200, rounds=20):
    found = []
    for _ in range(rounds):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            body()
        found.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(found)


def measure_calls(options):
    inputs = vectors(1, 16, 1, torch.float32 if options.device == "cpu" else torch.bfloat16, device=options.device)
    tau = torch.ones(1, 1, 1, device=options.device, requires_grad=True)
    dy = torch.randn_like(inputs[3])
    given = *inputs, tau
    free = [x.detach() for x in given]
    library, operator = empty_operator(given)
    rows = (
        ("deltasane.ops.rwkv7", lambda *x: _own(x[-1], *x[:-1])),
        ("an operator that computes nothing", lambda *x: operator(*x)[0]),
        ("an autograd.Function that computes nothing", lambda *x: EmptyFunction.apply(*x)[0]),
    )
    print("us of the host a call | without gradients | forward | backward")
    for name, run in rows:
        y = run(*given)
        passes = lambda: run(*free), lambda: run(*given), lambda: torch.autograd.grad(y, given, dy, retain_graph=True)  # noqa: B023
        print(name, *(f"{host_microseconds(body):.1f}" for body in passes), sep=" | ", flush=True)
    print(f"torch.add | {host_microseconds(lambda: torch.add(dy, dy)):.1f}")
    print(f"torch.empty_like | {host_microseconds(lambda: torch.empty_like(dy)):.1f}")
    token = [x[:, :1].float().cpu().numpy() for x in free[:-1]]
    for name, tau in (("one token of numpy arrays", None), ("one token of numpy arrays, with tau", 2.0)):
        print(f"deltasane.ops.rwkv7, {name} | {host_microseconds(lambda: ops.rwkv7(*token, tau=tau)):.1f}")  # noqa: B023


def plain_recurrence(r, w, k, v, a, b, *, decay, tau=None):
    """RWKV-LM's formula in torch's own operations, without SANE; w before its activation."""
    assert decay == "rwkv"
    state = r.new_zeros(r.shape[0], r.shape[2], v.shape[3], k.shape[3])
    decays, ys = torch.exp(-torch.exp(w)), []
    for t in range(r.shape[1]):
        sa = state @ a[:, t, :, :, None]
        state = state * decays[:, t, :, None, :] + sa * b[:, t, :, None, :] + v[:, t, :, :, None] * k[:, t, :, None, :]
        ys.append((state @ r[:, t, :, :, None])[..., 0])
    return torch.stack(ys, 1), state


def own_recurrence(*arrays, decay, tau=None):
    return ops.rwkv7(*arrays, decay=decay)


class Replaced:
    """deltasane.ops with another recurrence."""

    def __init__(self, rwkv7):
        self.rwkv7, self.tau = rwkv7, ops.tau


def losses(rwkv7, steps, seed):
    """Of the model in examples/python/train_with_sane.py, with heads of 64."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python"))
    import train_with_sane as example

    example.ops, example.HEAD = Replaced(rwkv7), 64
    return [loss.item() for loss in example.training_losses(steps, channels=128, alpha=3.0, device="cuda", seed=seed)]


def measure_training(options):
    own, plain = losses(own_recurrence, options.steps, 0), losses(plain_recurrence, options.steps, 0)
    other = losses(plain_recurrence, options.steps, 1)
    for step in (1, 2, 5, 10, 20, 50, 100, 150, 200):
        if step <= options.steps:
            i = step - 1
            print(f"step {step:4d}: deltasane {own[i]:.6f}, plain torch {plain[i]:.6f}, plain, other seed {other[i]:.6f}")
    tail = options.steps // 4
    mean = [statistics.mean(x[-tail:]) for x in (own, plain, other)]
    print(f"mean of the last {tail}: deltasane {mean[0]:.6f}, plain torch {mean[1]:.6f}, plain, other seed {mean[2]:.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("calls", "kernel", "training"))
    parser.add_argument("--bench", help="the JSON of deltasane bench kernel")
    parser.add_argument("--peers", help="a folder with sources of other operators")
    parser.add_argument("--device", default="cuda", help="of calls: cuda or cpu")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    {"calls": measure_calls, "kernel": measure_kernel, "training": measure_training}[options.what](options)


if __name__ == "__main__":
    main()
