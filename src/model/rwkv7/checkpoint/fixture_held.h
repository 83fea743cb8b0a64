// For tests: an RWKV-7 in memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/rwkv7/checkpoint/source.h"

namespace deltasane::test {

class HeldRwkv7 : public TensorSource {
 public:
  HeldRwkv7() = default;
  // The definition reads all of a source for every token, which may draw its numbers each time.
  explicit HeldRwkv7(const TensorSource& source) {
    for (const std::string& name : source.names()) tensors.emplace(name, source.read(name));
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : tensors) out.push_back(name);
    return out;
  }
  bool has(std::string_view name) const override { return tensors.contains(name); }
  Shape shape(std::string_view name) const override { return at(name).shape(); }
  Tensor<float> read(std::string_view name) const override { return at(name).clone(); }
  const Tensor<float>& at(std::string_view name) const { return tensors.at(std::string(name)); }

  std::map<std::string, Tensor<float>, std::less<>> tensors;
};

}  // namespace deltasane::test
