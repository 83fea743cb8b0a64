#include "model/rwkv7/train/gpu/unsupported.h"

namespace deltasane::rwkv7::gpu {

void expect_trainable(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane) {
  if (shape.head_size != 64)
    fail(Fault::usage, "training on a GPU: expected heads of 64 channels, found ", shape.head_size,
         "; use the device cpu");
  if (sane && sane->chunk != 16)
    fail(Fault::usage, "training on a GPU: expected SANE chunks of 16 tokens, found ", sane->chunk,
         "; use the device cpu");
}

}  // namespace deltasane::rwkv7::gpu
