from .patch import patch_fla as patch_fla

__all__ = ["patch_fla"]
