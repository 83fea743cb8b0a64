// For tests: a small RWKV-7 in memory whose numbers f16 and bf16 hold exactly.
#pragma once

#include <cstdint>

#include "model/rwkv7/checkpoint/fixture_held.h"
#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/rwkv7/checkpoint/write.h"

namespace deltasane::test {

class SmallModel : public HeldRwkv7 {
 public:
  explicit SmallModel(const Rwkv7Shape& shape, uint64_t seed = 1);
};

Rwkv7Shape small_shape();  // three layers, every size different
Rwkv7Shape small_sane_shape();

Tensor<float> turned(const Tensor<float>& tensor);
Tensor<float> reshaped(const Tensor<float>& tensor, const Shape& shape);

// Tensors as f32 under any names and in any shapes.
using NamedTensors = std::vector<std::pair<std::string, Tensor<float>>>;
void write_named(const fs::path& path, const NamedTensors& tensors, const Metadata& metadata = {});

// The model as other programs store it.
NamedTensors as_fla(const SmallModel& model);
NamedTensors as_web_rwkv(const SmallModel& model);
NamedTensors as_vllm(const SmallModel& model);
NamedTensors as_smerkyg(const SmallModel& model);

void expect_same(const TensorSource& found, const TensorSource& expected);

}  // namespace deltasane::test
