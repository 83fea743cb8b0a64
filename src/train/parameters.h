// A model's parameters as one row of floats, so that gradients, optimiser state and checkpoints
// have one layout and need not know what a parameter means.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/rwkv7/checkpoint/source.h"
#include "tensor/tensor.h"

namespace deltasane::train {

struct ParameterSlot {
  std::string name;  // official
  Shape shape;       // as in rwkv7_layout.h
  int64_t offset;    // of the first element; a multiple of 16, so that slots begin on 64 bytes
  int64_t elements() const { return shape.elements(); }
};

class ParameterLayout {
 public:
  explicit ParameterLayout(const Rwkv7Shape& shape);

  const Rwkv7Shape& shape() const { return shape_; }
  const std::vector<ParameterSlot>& slots() const { return slots_; }  // in the official order
  bool has(std::string_view name) const { return index_.contains(name); }
  const ParameterSlot& slot(std::string_view name) const;
  int64_t elements() const { return elements_; }  // with the gaps between slots, which are zero
  int64_t parameters() const;                     // without

 private:
  Rwkv7Shape shape_;
  std::vector<ParameterSlot> slots_;
  std::map<std::string, size_t, std::less<>> index_;
  int64_t elements_ = 0;
};

// SANE's settings are part of the model; none for a baseline.
class Parameters : public Rwkv7Source {
 public:
  Parameters(const Rwkv7Shape& shape, std::optional<SaneSettings> sane);
  // A copy of a source, which must have the tensors of `shape`.
  Parameters(const Rwkv7Source& source, std::optional<SaneSettings> sane);

  const ParameterLayout& layout() const { return layout_; }
  const std::optional<SaneSettings>& sane() const { return sane_; }
  std::span<float> all() { return values_.span(); }
  std::span<const float> all() const { return values_.span(); }
  std::span<float> of(std::string_view name);
  std::span<const float> of(std::string_view name) const;

  std::vector<std::string> names() const override;
  bool has(std::string_view name) const override { return layout_.has(name); }
  Shape shape(std::string_view name) const override { return layout_.slot(name).shape; }
  Tensor<float> read(std::string_view name) const override;

  Metadata metadata() const;  // sane.alpha and sane.chunk, or nothing
  // These parameters as a checkpoint, without a copy: good for as long as they live.
  Rwkv7Checkpoint as_checkpoint() const;

 private:
  ParameterLayout layout_;
  std::optional<SaneSettings> sane_;
  Tensor<float> values_;
};

// A copy with x_tau = 0 and w_tau = 0 added: tau is alpha ln 2 + 1 everywhere. Fails where the
// source has SANE already.
Parameters grafted(const Rwkv7Source& source, const SaneSettings& sane);

}  // namespace deltasane::train
