"""The operator under the names and conventions of other packages: change one line of import.

    from deltasane.compat.rwkv_lm import RUN_CUDA_RWKV7g, RWKV7_CLAMPW_CUDA
    from deltasane.compat.fla import chunk_rwkv7, fused_recurrent_rwkv7
    from deltasane.compat.rwkv_ops import generalized_delta_rule_sane
    deltasane.compat.patch_fla(tau=3.0)
"""

from .patch import patch_fla

__all__ = ["patch_fla"]
