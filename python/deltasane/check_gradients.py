"""How exact a kernel of RWKV-7's recurrence with SANE is, forward and backward.

    python -m deltasane.check_gradients my_package.my_module:my_function

The function is called as f(r, w, k, v, a, b, tau, state) with torch tensors and returns (y, final state):
arrays (batch, time, head, channel), tau (batch, chunks, head), states (batch, head, value, key). The
truth is the definition in float64 (deltasane.ops.reference). The table has the relative error, in the
Frobenius norm, of the result and of each gradient, by tau, with and without a loss on the final state;
the last line of each pair is what rounding alone costs: the definition in float32, its results rounded
to the type, w's gradient too. An error of more than ten times that is marked, and makes the exit code 1.
"""

import argparse
import importlib
import sys

COLUMNS = ("y", "dr", "dw", "dk", "dv", "da", "db", "dtau", "dstate")
INPUTS = ("r", "w", "k", "v", "a", "b", "tau", "state")


def _inputs(torch, tau, dtype, decay, shape, seed):
    """In the type under test, as float64: rounding of the inputs is no error of the kernel."""
    batch, time, heads, channels = shape
    random = torch.Generator().manual_seed(seed)
    normal = lambda *size: torch.randn(*size, generator=random, dtype=torch.float64)  # noqa: E731
    kappa = torch.nn.functional.normalize(normal(*shape), dim=-1)
    rate = torch.sigmoid(normal(*shape))
    exponent = -4 + 0.5 * normal(*shape)
    w = {
        "decay": torch.exp(-torch.exp(exponent)), "log": -torch.exp(exponent), "rwkv": exponent,
        "clampw": torch.logit((torch.exp(exponent) / 0.6065306597126334).clamp(1e-6, 1 - 1e-6)),
    }[decay]  # fmt: skip
    found = {
        "r": normal(*shape) * channels**-0.5, "w": w, "k": normal(*shape) * channels**-0.5, "v": normal(*shape),
        "a": -kappa, "b": kappa * rate,
        "tau": torch.full((batch, time // 16, heads), float(tau), dtype=torch.float64),
        "state": normal(batch, heads, channels, channels),
    }  # fmt: skip
    always_float = ("w", "tau", "state")
    return {n: x.to(torch.float32 if n in always_float else dtype).double() for n, x in found.items()}


def _results(torch, function, inputs, types, device, loss):
    """y and all gradients, in float64 on the CPU."""
    leaves = {n: x.to(device, types[n]).requires_grad_() for n, x in inputs.items()}
    y, state = function(*(leaves[n] for n in INPUTS))
    total = (y.double() * loss[0].to(device)).sum() + (state.double() * loss[1].to(device)).sum()
    gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    found = dict(zip((f"d{n}" for n in leaves), gradients))
    found["y"] = y
    return {n: None if x is None else x.detach().double().cpu() for n, x in found.items()}


def errors(function, *, tau, on_state, dtype, device="cpu", decay="decay", shape=(2, 64, 4, 64), seed=0):
    """({column: relative error}, the same of rounding alone) of a function."""
    import torch

    from . import ops

    inputs = _inputs(torch, tau, dtype, decay, shape, seed)
    random = torch.Generator().manual_seed(seed + 1)
    loss = [torch.randn(inputs[n].shape, generator=random, dtype=torch.float64) for n in ("v", "state")]
    loss = [loss[0].to(dtype).double(), loss[1].float().double() * on_state]  # as the kernel is given them

    def definition(r, w, k, v, a, b, tau, state):
        return ops.reference.rwkv7(r, w, k, v, a, b, tau=tau, state=state, decay=decay)

    types = {n: torch.float32 if n in ("w", "tau", "state") else dtype for n in INPUTS}
    truth = _results(torch, definition, inputs, dict.fromkeys(INPUTS, torch.float64), "cpu", loss)
    plain = _results(torch, definition, inputs, dict.fromkeys(INPUTS, torch.float32), "cpu", loss)
    rounded = {**{f"d{n}": types[n] for n in INPUTS}, "y": dtype, "dw": dtype}
    plain = {n: x.to(rounded[n]).double() for n, x in plain.items()}
    found = _results(torch, function, inputs, types, device, loss)

    def relative(results):
        return {
            n: float("nan") if results[n] is None else ((results[n] - truth[n]).norm() / truth[n].norm()).item()
            for n in COLUMNS
        }

    return relative(found), relative(plain)


def _own(decay):
    from . import ops

    return lambda r, w, k, v, a, b, tau, state: ops.rwkv7(r, w, k, v, a, b, tau=tau, state=state, decay=decay)


def _function(name, decay):
    if name == "deltasane":
        return _own(decay)
    module, colon, attribute = name.partition(":")
    if not colon:
        raise SystemExit(f"function: expected module:function, found {name!r}")
    sys.path.insert(0, "")
    return getattr(importlib.import_module(module), attribute)


def main(arguments=None):
    parser = argparse.ArgumentParser("python -m deltasane.check_gradients", description=__doc__.split("\n")[0])
    parser.add_argument("function", help="module:function, or deltasane for the operator of this package")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--type", default="float32", choices=("float32", "bfloat16"), help="of r, k, v, a, b")
    parser.add_argument("--decay", default="decay", choices=("decay", "log", "rwkv", "clampw"), help="what w is")
    parser.add_argument("--tau", default="1.5,3,8,10000", help="values of tau; 10000 has no effect")
    parser.add_argument("--shape", default="2,64,4,64", help="batch, time, heads, channels")
    options = parser.parse_args(arguments)
    import torch

    function = _function(options.function, options.decay)
    print("| tau | loss on the final state | " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * (len(COLUMNS) + 2))
    wrong = 0
    for tau in map(float, options.tau.split(",")):
        for on_state in (False, True):
            found, plain = errors(
                function, tau=tau, on_state=on_state, dtype=getattr(torch, options.type), device=options.device,
                decay=options.decay, shape=tuple(map(int, options.shape.split(","))),
            )  # fmt: skip
            cells = []
            for n in COLUMNS:
                bad = not found[n] <= 10 * plain[n]
                wrong += bad
                cells.append(f"**{found[n]:.1e}**" if bad else f"{found[n]:.1e}")
            print(f"| {tau:g} | {'yes' if on_state else 'no'} | " + " | ".join(cells) + " |")
            print("| | rounding alone | " + " | ".join(f"{plain[n]:.1e}" for n in COLUMNS) + " |")
    print(f"\n{wrong} of the errors are more than ten times rounding" if wrong else "\nall as exact as rounding allows")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
