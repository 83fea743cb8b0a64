#include "model/rwkv7/checkpoint/source.h"

#include <charconv>
#include <cmath>

#include "base/printable.h"

namespace deltasane {
namespace {

int64_t layers_of(const Rwkv7Source& source) {
  int64_t layers = 0;
  for (const std::string& name : source.names()) {
    constexpr std::string_view prefix = "blocks.";
    if (!name.starts_with(prefix)) continue;
    int64_t block = 0;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), block);
    layers = std::max(layers, block + 1);
  }
  if (layers == 0) fail(Fault::file, source.where(), ": expected blocks, found none");
  return layers;
}

// Two sizes of a matrix that must be there.
Shape matrix(const Rwkv7Source& source, const std::string& name) {
  if (!source.has(name))
    fail(Fault::file, source.where(), ": expected the tensor ", name, ", found none");
  const Shape shape = source.shape(name);
  if (shape.rank() != 2)
    fail(Fault::file, source.where(), ": tensor ", name, ": expected 2 dimensions, found ", shape);
  return shape;
}

template <class Number>
std::optional<Number> parsed(const Metadata& metadata, const char* key, std::string_view where) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(Fault::file, where, ": ", key, ": expected a number, found ", printable(text));
  return number;
}

}  // namespace

Rwkv7Shape measure_rwkv7(const Rwkv7Source& source, EmbeddingNorm embedding_norm) {
  Rwkv7Shape out;
  out.layers = layers_of(source);
  const Shape embedding = matrix(source, "emb.weight");
  out.vocabulary = embedding[0];
  out.channels = embedding[1];
  const Shape heads = matrix(source, "blocks.0.att.r_k");
  out.heads = heads[0];
  out.head_size = heads[1];
  out.feed_forward = matrix(source, "blocks.0.ffn.key.weight")[0];
  out.rank_w = matrix(source, "blocks.0.att.w1")[1];
  out.rank_a = matrix(source, "blocks.0.att.a1")[1];
  out.rank_g = matrix(source, "blocks.0.att.g1")[1];
  if (out.layers > 1) out.rank_v = matrix(source, "blocks.1.att.v1")[1];
  out.sane = source.has("blocks.0.att.w_tau") || source.has("blocks.0.att.x_tau");
  if (embedding_norm == EmbeddingNorm::optional)
    out.embedding_norm = source.has("blocks.0.ln0.weight") || source.has("blocks.0.ln0.bias");
  size_t found = 0;
  each_rwkv7_tensor(out, [&](const std::string& name, const Rwkv7Row& row) {
    if (!source.has(name))
      fail(Fault::file, source.where(), ": expected the tensor ", name, ", found none");
    ++found;
    const Shape expected = rwkv7_shape(out, row), shape = source.shape(name);
    if (shape != expected || expected.elements() == 0)
      fail(Fault::file, source.where(), ": tensor ", name, ": expected shape ", expected,
           " without zeros, found ", shape);
  });
  if (out.heads * out.head_size != out.channels)
    fail(Fault::file, source.where(), ": tensor blocks.0.att.r_k: expected ", out.channels,
         " elements, found ", heads);
  if (source.names().size() != found)
    fail(Fault::file, source.where(), ": expected ", found, " tensors, found ",
         source.names().size(), "; some blocks have tensors that others lack");
  return out;
}

std::optional<NonFinite> find_non_finite(const Rwkv7Source& source) {
  for (const std::string& name : source.names()) {
    const Tensor<float> tensor = source.read(name);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      if (!std::isfinite(tensor[i])) return NonFinite{name, i, tensor[i]};
  }
  return std::nullopt;
}

void expect_finite(const Rwkv7Source& source) {
  if (const std::optional<NonFinite> bad = find_non_finite(source))
    fail(Fault::overflow, source.where(), ": tensor ", bad->tensor, ": element ", bad->index,
         ": expected a finite number, found ", bad->value);
}

std::optional<SaneSettings> sane_settings(bool has_tensors, const Metadata& metadata,
                                          std::string_view where) {
  const auto alpha = parsed<double>(metadata, "sane.alpha", where);
  const auto chunk = parsed<int64_t>(metadata, "sane.chunk", where);
  if (!has_tensors && !alpha && !chunk) return std::nullopt;
  if (!has_tensors)
    fail(Fault::file, where, ": sane.", alpha ? "alpha" : "chunk",
         ": expected the SANE tensors att.x_tau and att.w_tau with it, found none");
  if (!alpha)
    fail(Fault::file, where, ": expected the metadata sane.alpha beside the SANE tensors, found ",
         "none");
  if (!chunk)
    fail(Fault::file, where, ": expected the metadata sane.chunk beside the SANE tensors, found ",
         "none");
  if (!std::isfinite(*alpha) || *alpha <= 0)
    fail(Fault::file, where, ": sane.alpha: expected a positive number, found ", *alpha);
  if (*chunk < 1 || *chunk > (int64_t{1} << 30))
    fail(Fault::file, where, ": sane.chunk: expected 1 to 2^30 tokens, found ", *chunk);
  return SaneSettings{*alpha, *chunk};
}

}  // namespace deltasane
