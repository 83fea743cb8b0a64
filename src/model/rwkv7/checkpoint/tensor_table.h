// What an RWKV-7 model consists of, said once: every tensor by its official name and its sizes.
//
//   C channels   F channels of the feed-forward   V vocabulary   H heads   N channels per head
//   Rw Ra Rv Rg  ranks of the four low-rank pairs, read from the tensors
//
// Matrices `*.weight` are [out, in]; low-rank factors and w_tau are [in, out]; vectors are [C]
// (official files spread most of them to [1, 1, C]). v0, v1 and v2 do nothing in block 0 and are
// left out there; ln0 exists in block 0 only. x_tau and w_tau exist in SANE models, in every block.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernel/time_mix/key_norm.h"
#include "model/train/parameter_role.h"
#include "tensor/view.h"

namespace deltasane {

// What norms add to a variance: layer norms (ln0, ln1, ln2, ln_out), and the group norm of heads
// (ln_x). How the key direction is normalized.
struct Rwkv7Norms {
  float layer_eps = 1e-5f, group_eps = 64e-5f;
  kernel::KeyNorm key{};
  friend bool operator==(const Rwkv7Norms&, const Rwkv7Norms&) = default;
};

struct Rwkv7Shape {
  int64_t layers = 0, channels = 0, heads = 0, head_size = 0, feed_forward = 0, vocabulary = 0;
  int64_t rank_w = 0, rank_a = 0, rank_v = 0, rank_g = 0;  // rank_v is 0 when there is one layer
  bool embedding_norm = true;  // false: no ln0; the embedding is used as it is
  bool sane = false;           // x_tau and w_tau are there
  Rwkv7Norms norms{};
  friend bool operator==(const Rwkv7Shape&, const Rwkv7Shape&) = default;
};

// The sizes of one dimension, as letters.
enum class Rwkv7Size : uint8_t { none, C, F, V, H, N, Rw, Ra, Rv, Rg };

struct Rwkv7Row {
  enum class Where : uint8_t { model, first_block, later_blocks, every_block };
  enum class Form : uint8_t { vector, spread_vector, matrix, factor };
  std::string_view suffix;  // after "blocks.N." in blocks
  Where where;
  Form form;
  ParameterRole role;
  Rwkv7Size rows, columns = Rwkv7Size::none;

  bool sane() const { return role == ParameterRole::sane; }
  bool in_block(int64_t block) const {
    return where == Where::every_block ||
           where == (block == 0 ? Where::first_block : Where::later_blocks);
  }
};

std::span<const Rwkv7Row> rwkv7_rows();                    // in the official order
const Rwkv7Row* rwkv7_block_row(std::string_view suffix);  // null for no such tensor
const Rwkv7Row* rwkv7_model_row(std::string_view name);    // emb, ln_out and head
std::string rwkv7_block_name(int64_t block, std::string_view suffix);
int64_t rwkv7_size(const Rwkv7Shape& shape, Rwkv7Size size);
Shape rwkv7_shape(const Rwkv7Shape& shape, const Rwkv7Row& row);

// Calls body(name, row, block) for every tensor of a model, in the official order; block is -1
// outside of blocks.
template <class Body>
void each_rwkv7_parameter(const Rwkv7Shape& shape, Body&& body) {
  using Where = Rwkv7Row::Where;
  const auto model = [&](bool embedding) {
    for (const Rwkv7Row& row : rwkv7_rows())
      if (row.where == Where::model && (row.role == ParameterRole::embedding) == embedding)
        body(std::string(row.suffix), row, int64_t{-1});
  };
  model(true);
  for (int64_t block = 0; block < shape.layers; ++block)
    for (const Rwkv7Row& row : rwkv7_rows()) {
      if (row.where == Where::first_block && !shape.embedding_norm) continue;
      if (row.sane() && !shape.sane) continue;
      if (row.in_block(block)) body(rwkv7_block_name(block, row.suffix), row, block);
    }
  model(false);
}

// Likewise body(name, row).
template <class Body>
void each_rwkv7_tensor(const Rwkv7Shape& shape, Body&& body) {
  each_rwkv7_parameter(
      shape, [&](const std::string& name, const Rwkv7Row& row, int64_t) { body(name, row); });
}

}  // namespace deltasane
