// For tests: a small RWKV-7 in memory whose numbers f16 and bf16 hold exactly.
#pragma once

#include <cstdint>
#include <map>

#include "format/rwkv7_checkpoint.h"
#include "format/rwkv7_write.h"

namespace deltasane::test {

class SmallModel : public Rwkv7Source {
 public:
  explicit SmallModel(const Rwkv7Shape& shape, uint64_t seed = 1);

  std::vector<std::string> names() const override;
  bool has(std::string_view name) const override { return tensors.contains(name); }
  Shape shape(std::string_view name) const override { return at(name).shape(); }
  Tensor<float> read(std::string_view name) const override { return at(name).clone(); }
  const Tensor<float>& at(std::string_view name) const { return tensors.find(name)->second; }

  std::map<std::string, Tensor<float>, std::less<>> tensors;
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

void expect_same(const Rwkv7Source& found, const Rwkv7Source& expected);

}  // namespace deltasane::test
