"""Replaces the recurrence of an existing training script, and shows that its gradients stay what they were.

In RWKV-LM's train_temp, in place of the lines that compile the CUDA kernel:

    from deltasane.compat.rwkv_lm import RUN_CUDA_RWKV7g

The rest of the script stays. This file runs such a step with the recurrence written in plain torch, as the original's
own reference has it, and with the replacement.

    python examples/python/replace_the_operator.py
"""

import torch

from deltasane.compat.rwkv_lm import RUN_CUDA_RWKV7g


def plain(q, w, k, v, a, b):
    """The recurrence in torch's own operations, one token after another."""
    batch, time, channels = q.shape
    q, w, k, v, a, b = (x.view(batch, time, -1, 64) for x in (q, w, k, v, a, b))
    state = torch.zeros(batch, channels // 64, 64, 64, dtype=q.dtype)
    outputs = []
    for t in range(time):
        decay = torch.exp(-torch.exp(w[:, t, :, None, :]))
        removed = (state @ a[:, t, :, :, None]) * b[:, t, :, None, :]
        state = state * decay + removed + v[:, t, :, :, None] * k[:, t, :, None, :]
        outputs.append((state @ q[:, t, :, :, None])[..., 0])
    return torch.stack(outputs, 1).reshape(batch, time, channels)


def gradients(operator, inputs, dtype):
    leaves = [x.to(dtype).requires_grad_() for x in inputs]
    loss = operator(*leaves).square().mean()
    return loss.item(), torch.autograd.grad(loss, leaves)


def main():
    torch.manual_seed(0)
    shape = (2, 50, 128)
    kappa = torch.nn.functional.normalize(torch.randn(2, 50, 2, 64), dim=-1).view(shape)
    inputs = [torch.randn(shape), torch.randn(shape) - 3, torch.randn(shape), torch.randn(shape), -kappa]
    inputs.append(kappa * torch.rand(shape))
    loss, expected = gradients(plain, inputs, torch.float64)
    found_loss, found = gradients(RUN_CUDA_RWKV7g, inputs, torch.float32)
    print(f"loss {loss:.6f} in plain torch (float64), {found_loss:.6f} with the operator (float32)")
    for name, x, y in zip("qwkvab", found, expected):
        print(f"gradient of {name}: relative error {((x - y).norm() / y.norm()).item():.1e}")


if __name__ == "__main__":
    main()
