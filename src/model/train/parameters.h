// A model's parameters as one row of floats, so that gradients, optimiser state and checkpoints
// have one layout and need not know what a parameter means.
//
// An architecture lists its parameters once, to a visitor; the layout is made from that list.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/train/parameter_role.h"
#include "model/sane.h"
#include "model/tensor_source.h"
#include "tensor/tensor.h"

namespace deltasane {

struct ParameterSlot {
  std::string name;  // as the architecture's checkpoints have it
  Shape shape;
  ParameterRole role = ParameterRole::vector;
  int64_t bucket = 0;  // whose gradients are complete together (gradient_buckets.h)
  int64_t offset = 0;  // of the first element; a multiple of 16, so that slots begin on 64 bytes

  int64_t elements() const { return shape.elements(); }
  // (matrices, out, in) are several matrices in one tensor.
  int64_t matrices() const { return shape.rank() == 3 ? shape[0] : 1; }
  friend bool operator==(const ParameterSlot&, const ParameterSlot&) = default;
};
using Slot = const ParameterSlot*;  // null where a model does not have the parameter

class ParameterLayout {
 public:
  // each_parameter(visit) calls visit(name, shape, role, bucket) for every parameter, in the order
  // of the row.
  template <class EachParameter>
  requires(
      !std::is_same_v<std::remove_cvref_t<EachParameter>,
                      ParameterLayout>) explicit ParameterLayout(EachParameter&& each_parameter) {
    each_parameter([this](std::string name, const Shape& shape, ParameterRole role,
                          int64_t bucket) { add(std::move(name), shape, role, bucket); });
  }

  const std::vector<ParameterSlot>& slots() const { return slots_; }
  bool has(std::string_view name) const { return index_.contains(name); }
  const ParameterSlot& slot(std::string_view name) const;
  int64_t elements() const { return elements_; }  // with the gaps between slots, which are zero
  int64_t parameters() const;                     // without

  friend bool operator==(const ParameterLayout&, const ParameterLayout&) = default;

 private:
  void add(std::string name, const Shape& shape, ParameterRole role, int64_t bucket);

  std::vector<ParameterSlot> slots_;
  std::map<std::string, size_t, std::less<>> index_;
  int64_t elements_ = 0;
};

// The numbers, with SANE's settings, which are part of the model; none for a baseline.
class Parameters : public TensorSource {
 public:
  Parameters(ParameterLayout layout, std::optional<SaneSettings> sane);  // all zero

  const ParameterLayout& layout() const { return layout_; }
  const std::optional<SaneSettings>& sane() const { return sane_; }
  std::span<float> all() { return values_.span(); }
  std::span<const float> all() const { return values_.span(); }
  std::span<float> of(std::string_view name);
  std::span<const float> of(std::string_view name) const;
  Parameters clone() const;

  // Every parameter that the source has takes the source's numbers; the others stay.
  void take(const TensorSource& source);

  std::vector<std::string> names() const override;
  bool has(std::string_view name) const override { return layout_.has(name); }
  Shape shape(std::string_view name) const override { return layout_.slot(name).shape; }
  Tensor<float> read(std::string_view name) const override;

 private:
  ParameterLayout layout_;
  std::optional<SaneSettings> sane_;
  Tensor<float> values_;
};

}  // namespace deltasane
