// Models of random weights, for benchmarks and tests: matrices whose outputs are of the size of their
// inputs, norms about 1, decays from fast to slow.
#pragma once

#include "format/quantize/matrix_types.h"
#include "model/gated_delta/config.h"
#include "model/tensor_source.h"

namespace deltasane::gated_delta {

class RandomTensors : public TensorSource {
 public:
  RandomTensors(const Config& config, uint64_t seed) : config_(config), seed_(seed) {}
  std::vector<std::string> names() const override;
  bool has(std::string_view name) const override;
  Shape shape(std::string_view name) const override;
  Tensor<float> read(std::string_view name) const override;

 private:
  Config config_;
  uint64_t seed_;
};

// By the name of a released model, or of its size.
Config released_config(std::string_view name);

// As safetensors or GGUF, by the name's end, or, where that is /, as a folder of the Hugging Face
// libraries; GGUF and folders with a tokenizer (format/tokenizer/tokenizer_json_write.h).
void write_random(const Config& config, uint64_t seed, const fs::path& path,
                  const MatrixTypes& types);

}  // namespace deltasane::gated_delta
