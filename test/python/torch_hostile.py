"""deltasane.ops with random hostile torch tensors: exceptions of Python only (see hostile.py)."""

import hostile
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from deltasane import _ops  # noqa: E402


class Torch(hostile.Numpy):
    """How tensors are spoilt, on the CPU and on a GPU where there is one."""

    functions = ("rwkv7", "delta_rule", "step", "neutralize", "tau")
    types = (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.uint8)

    def __init__(self, rng, device):
        super().__init__(rng)
        self.device = device

    def made(self, x):
        return torch.from_numpy(np.array(x)).to(self.device)

    def is_refusal(self, error):
        return super().is_refusal(error) or "not enough memory" in str(error) or isinstance(error, torch.OutOfMemoryError)

    def can_compare(self, x):
        is_dense = isinstance(x, torch.Tensor) and x.layout == torch.strided and not x.is_meta
        return is_dense and x.numel() * x.element_size() <= hostile.LARGE

    def bytes_of(self, x):
        x = x.detach().cpu().resolve_conj().resolve_neg().as_subclass(torch.Tensor).flatten()
        return x.clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().tobytes()

    def prepared(self, given):
        if self.device == "cuda" and "rule" in given:  # the kernels of these rules take no other vectors
            given.update((n, given[n].bfloat16()) for n in "rkv")
        return given

    def use(self, results):
        needing = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad] if isinstance(results, tuple) else []
        if needing:
            torch.autograd.backward(needing, [torch.ones_like(x) for x in needing])

    def spoilt(self, x):
        if not self.can_compare(x):
            return x
        way = self.one_of(("as numpy", "type", "expanded", "gradient", "device", "sparse", "negated", "parameter", "subclass", "shifted"))
        if way == "type":
            return x.to(self.one_of(self.types))
        if way == "expanded":
            return x.as_strided(x.shape, [self.one_of((0, s)) for s in x.stride()])
        if way == "gradient" and x.is_floating_point():
            return x.detach().clone().requires_grad_()
        if way == "device":
            devices = ["meta", "cpu"] + ["cuda"] * torch.cuda.is_available()
            return x.detach().to(self.one_of(devices))
        if way == "sparse" and type(x) is torch.Tensor:
            return x.detach().to_sparse()
        if way == "negated" and x.dtype == torch.float32:
            return torch.view_as_complex(torch.stack([x, x], -1)).conj().imag
        if way == "parameter" and x.is_floating_point():
            return torch.nn.Parameter(x.detach().clone())
        if way == "subclass":
            return x.detach().as_subclass(type("Own", (torch.Tensor,), {}))
        if way == "shifted":
            return torch.zeros(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view(x.shape).copy_(x.detach())
        if x.is_meta or x.dtype == torch.bfloat16:
            return x
        y = super().spoilt(x.detach().cpu().resolve_conj().resolve_neg().numpy())
        try:
            return torch.as_tensor(y.copy() if y.nbytes <= hostile.LARGE else y).to(x.device)
        except (TypeError, ValueError):  # a type that torch has not
            return x


def test_hostile_tensors_are_refused():
    hostile.expect_no_faults("torch")


@pytest.mark.skipif(not torch.cuda.is_available() or not _ops.cuda, reason="this machine has no CUDA device, or this build no CUDA")
def test_hostile_tensors_are_refused_on_a_gpu():
    hostile.expect_no_faults("cuda")
