#include "model/rwkv7/checkpoint/source.h"

#include <charconv>
#include <cmath>

#include "base/printable.h"

namespace deltasane {
namespace {

int64_t layers_of(const TensorSource& source) {
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
Shape matrix(const TensorSource& source, const std::string& name) {
  if (!source.has(name))
    fail(Fault::file, source.where(), ": expected the tensor ", name, ", found none");
  const Shape shape = source.shape(name);
  if (shape.rank() != 2)
    fail(Fault::file, source.where(), ": tensor ", name, ": expected 2 dimensions, found ", shape);
  return shape;
}

}  // namespace

Rwkv7Shape measure_rwkv7(const TensorSource& source, EmbeddingNorm embedding_norm) {
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

}  // namespace deltasane
