// For tests: an architecture that the program does not have, to show that nothing above `model`
// knows any. A byte-level language model whose layers differ in kind, computed one token at a time
// in double, its state rounded to float.
//
//     x = embedding(token)
//     u = x, or with a convolution sum over i of weight(i) * x(t - taps + 1 + i), per channel
//     memory:  S <- decay S + v k',  x += out y / rms(y),  y = S q      q k v are matrices times u
//     cache:   x += out sum over s <= t of softmax(q k(s) / sqrt(width)) v(s)
//     logits = head x / rms(x)
//
// A layer has any number of memories, each with its own number of heads and key and value widths, or
// a cache, or both. SANE acts on memories after the last token of each chunk: S <- tau tanh(S / tau),
// tau = alpha softplus(tau_weight u) + 1 where it was trained, alpha ln 2 + 1 where it was not.
#pragma once

#include <functional>

#include "model/registry.h"

namespace deltasane::toy {

struct MemorySizes {
  int64_t heads = 1, values = 1, keys = 1;
};

struct LayerSizes {
  int64_t taps = 0;  // of the convolution; 0: none
  std::vector<MemorySizes> memories = {};
  int64_t cache = 0;  // width; 0: none
};

struct Sizes {
  int64_t vocabulary = 256, channels = 0;
  std::vector<LayerSizes> layers = {};
  bool sane = false;  // has the weights of tau
};

// Every tensor with its name and shape, in the order of a file.
void each_tensor(const Sizes& sizes,
                 const std::function<void(const std::string& name, const Shape& shape)>& visit);

// A tensor as a new model has it: normal, no larger with more columns.
Tensor<float> random_tensor(const Shape& shape, uint64_t seed, uint64_t stream);

// Names of tensors of a layer, and of one of its memories.
std::string layer_tensor(int64_t layer, std::string_view name);
std::string memory_tensor(int64_t layer, size_t memory, std::string_view name);

class Checkpoint : public ModelCheckpoint {
 public:
  explicit Checkpoint(TensorFile file);  // fails where tensors are missing, unknown or misshapen

  const Sizes& sizes() const { return sizes_; }
  std::vector<std::string> names() const override;
  bool has(std::string_view name) const override { return file_.find(name) != nullptr; }
  Shape shape(std::string_view name) const override { return stored(name).shape; }
  Tensor<float> read(std::string_view name) const override { return file_.read(stored(name)); }
  std::string where() const override { return file_.path(); }
  StoredType type(std::string_view name) const override { return stored(name).type; }
  const TensorFile& file() const override { return file_; }
  const Metadata& metadata() const override { return file_.metadata(); }
  const std::optional<SaneSettings>& sane() const override { return sane_; }
  ModelDescription describe() const override;
  StateLayout state_layout() const override;
  StoredType matrix_type() const override { return type("head.weight"); }
  void write_safetensors(const fs::path& path, StoredType type,
                         const Metadata& metadata) const override;

 private:
  const StoredTensor& stored(std::string_view name) const;
  Sizes measure() const;

  TensorFile file_;
  Sizes sizes_;
  std::optional<SaneSettings> sane_;
};

// Writes any source of the tensors of each_tensor.
void write(const fs::path& path, const Sizes& sizes, const TensorSource& source, StoredType type,
           const Metadata& metadata);

Architecture architecture();

}  // namespace deltasane::toy
