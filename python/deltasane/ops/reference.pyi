from . import delta_rule, delta_rule_backward, rwkv7, rwkv7_backward

__all__ = ["delta_rule", "delta_rule_backward", "rwkv7", "rwkv7_backward"]
