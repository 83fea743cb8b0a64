#include <cmath>
#include <set>

#include "base/random.h"
#include "format/quantize/quantize.h"
#include "format/safetensors/safetensors.h"
#include "toy/toy.h"

namespace deltasane::toy {

std::string layer_tensor(int64_t layer, std::string_view name) {
  return cat("layers.", layer, ".", name);
}

std::string memory_tensor(int64_t layer, size_t memory, std::string_view name) {
  return cat("layers.", layer, ".memory.", memory, ".", name);
}

void each_tensor(const Sizes& sizes,
                 const std::function<void(const std::string&, const Shape&)>& visit) {
  const int64_t c = sizes.channels;
  visit("embedding.weight", {sizes.vocabulary, c});
  for (int64_t n = 0; n < int64_t(sizes.layers.size()); ++n) {
    const LayerSizes& layer = sizes.layers[size_t(n)];
    if (layer.taps) visit(layer_tensor(n, "convolution"), {layer.taps, c});
    for (size_t m = 0; m < layer.memories.size(); ++m) {
      const auto [heads, values, keys] = layer.memories[m];
      visit(memory_tensor(n, m, "decay"), {heads});
      visit(memory_tensor(n, m, "query"), {heads * keys, c});
      visit(memory_tensor(n, m, "key"), {heads * keys, c});
      visit(memory_tensor(n, m, "value"), {heads * values, c});
      visit(memory_tensor(n, m, "out"), {c, heads * values});
      if (sizes.sane) visit(memory_tensor(n, m, "tau"), {heads, c});
    }
    if (layer.cache) {
      for (const char* name : {"cache.query", "cache.key", "cache.value"})
        visit(layer_tensor(n, name), {layer.cache, c});
      visit(layer_tensor(n, "cache.out"), {c, layer.cache});
    }
  }
  visit("head.weight", {sizes.vocabulary, c});
}

Tensor<float> random_tensor(const Shape& shape, uint64_t seed, uint64_t stream) {
  Tensor<float> tensor(shape);
  Random random(seed, stream);
  const double scale = 1 / std::sqrt(double(shape[shape.rank() - 1]));
  for (float& value : tensor.span()) value = float(scale * random.normal());
  return tensor;
}

Checkpoint::Checkpoint(TensorFile file) : file_(std::move(file)), sizes_(measure()) {
  sane_ = sane_settings(sizes_.sane, file_.metadata(), where());
  std::set<std::string> expected;
  each_tensor(sizes_, [&](const std::string& name, const Shape& wanted) {
    expected.insert(name);
    if (shape(name) != wanted)
      fail(Fault::file, where(), ": tensor ", name, ": expected shape ", wanted, ", found ",
           shape(name));
  });
  for (const StoredTensor& tensor : file_.tensors())
    if (!expected.contains(tensor.name))
      fail(Fault::file, where(), ": tensor ", tensor.name, ": expected none of this name");
}

const StoredTensor& Checkpoint::stored(std::string_view name) const {
  const StoredTensor* const found = file_.find(name);
  if (!found) fail(Fault::file, where(), ": expected a tensor ", name, ", found none");
  return *found;
}

// Sizes from the shapes of a few tensors; the constructor compares the others with them.
Sizes Checkpoint::measure() const {
  const auto size = [&](const std::string& name, int dimension, int64_t divisor = 1) {
    const Shape found = shape(name);
    if (dimension >= found.rank() || found[dimension] < 1 || found[dimension] % divisor != 0)
      fail(Fault::file, where(), ": tensor ", name, ": expected a multiple of ", divisor,
           " as size ", dimension, ", found shape ", found);
    return found[dimension] / divisor;
  };
  Sizes sizes;
  sizes.vocabulary = size("embedding.weight", 0);
  sizes.channels = size("embedding.weight", 1);
  for (int64_t n = 0;; ++n) {
    LayerSizes layer;
    if (const auto name = layer_tensor(n, "convolution"); has(name)) layer.taps = size(name, 0);
    for (size_t m = 0; has(memory_tensor(n, m, "decay")); ++m) {
      const int64_t heads = size(memory_tensor(n, m, "decay"), 0);
      layer.memories.push_back({heads, size(memory_tensor(n, m, "value"), 0, heads),
                                size(memory_tensor(n, m, "key"), 0, heads)});
      sizes.sane = sizes.sane || has(memory_tensor(n, m, "tau"));
    }
    if (const auto name = layer_tensor(n, "cache.key"); has(name)) layer.cache = size(name, 0);
    if (!layer.taps && layer.memories.empty() && !layer.cache) return sizes;
    sizes.layers.push_back(layer);
  }
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> all;
  each_tensor(sizes_, [&](const std::string& name, const Shape&) { all.push_back(name); });
  return all;
}

ModelDescription Checkpoint::describe() const {
  ModelDescription found;
  found.architecture = "toy", found.title = "Toy";
  found.layers = int64_t(sizes_.layers.size());
  found.channels = sizes_.channels, found.vocabulary = sizes_.vocabulary;
  ModelDescription::Size memories{"memories", "memories", "", {}}, caches{"caches", "", "", {}};
  for (size_t n = 0; n < sizes_.layers.size(); ++n) {
    const LayerSizes& layer = sizes_.layers[n];
    for (size_t m = 0; m < layer.memories.size(); ++m) {
      const auto [heads, values, keys] = layer.memories[m];
      memories.text += cat(memories.text.empty() ? "" : ", ", heads, " of ", values, "x", keys);
      memories.values.push_back({cat(n, ".", m), heads * values * keys});
      found.layer_flops += double(heads * (values + 2 * keys) * sizes_.channels * 2);
    }
    if (layer.cache) caches.values.push_back({cat(n), 2 * layer.cache});
    found.layer_flops += double(8 * layer.cache * sizes_.channels);
  }
  found.head_flops = 2.0 * double(sizes_.channels * sizes_.vocabulary);
  found.sizes = {memories, caches};
  return found;
}

StateLayout Checkpoint::state_layout() const {
  StateLayout layout;
  for (int64_t n = 0; n < int64_t(sizes_.layers.size()); ++n) {
    const LayerSizes& layer = sizes_.layers[size_t(n)];
    if (layer.taps > 1)
      layout.add("convolution inputs", StateKind::convolution, n, {layer.taps - 1, sizes_.channels});
    for (size_t m = 0; m < layer.memories.size(); ++m) {
      const auto [heads, values, keys] = layer.memories[m];
      layout.add(cat("memory ", m), StateKind::memory, n, {heads, values, keys});
    }
    if (layer.cache) layout.add("keys and values", StateKind::cache, n, {2, layer.cache});
  }
  return layout;
}

void Checkpoint::write_safetensors(const fs::path& path, StoredType type,
                                   const Metadata& metadata) const {
  write(path, sizes_, *this, type, metadata);
}

void write(const fs::path& path, const Sizes& sizes, const TensorSource& source, StoredType type,
           const Metadata& metadata) {
  std::vector<PlannedTensor> plan;
  each_tensor(sizes, [&](const std::string& name, const Shape& shape) {
    plan.push_back({name, type, shape});
  });
  Metadata all = metadata;
  all["architecture"] = "toy";
  deltasane::write_safetensors(
      path, std::move(plan), all, [&](const PlannedTensor& tensor, const Sink& sink) {
        const Tensor<float> values = source.read(tensor.name);
        std::vector<std::byte> bytes(tensor.bytes());
        quantize_from_float(tensor.type, values.span(), bytes, tensor.name);
        sink(bytes);
      });
}

}  // namespace deltasane::toy
