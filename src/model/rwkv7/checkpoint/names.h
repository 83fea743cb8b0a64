// From the names that other programs give to RWKV-7's tensors to the official ones.
//
//   official (.pth, safetensors)   blocks.N.att.w1           [in, out]; some programs transpose
//   rwkv.cpp                       blocks.N.att.w1           transposed; x_rwkvag holds six vectors
//   FLA                            model.layers.N.attn.w_lora.lora.0.weight   transposed
//   vllm-rwkv                      model.blocks.N.att.w1.weight               transposed
//   SmerkyG                        model.layers.N.attention.w1
//   GGUF                           blk.N.time_mix_w1.weight                   transposed
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/rwkv7/checkpoint/tensor_table.h"

namespace deltasane {

// A stored tensor's meaning. `fused`: six vectors r, w, k, v, a, g on top of each other.
struct Rwkv7Meaning {
  enum class Orientation : uint8_t { official, transposed, by_shape };
  int64_t block = -1;  // -1: of the model
  const Rwkv7Row* row = nullptr;
  Orientation orientation = Orientation::official;
  bool fused = false;
  bool dead = false;  // present in some files, used by nobody

  std::string name() const {
    return block < 0 ? std::string(row->suffix) : rwkv7_block_name(block, row->suffix);
  }
};

inline constexpr std::array<std::string_view, 6> rwkv7_fused_order{"att.x_r", "att.x_w", "att.x_k",
                                                                   "att.x_v", "att.x_a", "att.x_g"};

// None when the name means nothing in RWKV-7. `format` is TensorFile::format().
std::optional<Rwkv7Meaning> rwkv7_meaning(std::string_view stored, std::string_view format);

// The GGUF name for an official one, and back.
std::string rwkv7_gguf_name(int64_t block, std::string_view suffix);
// FLA's name for an official one.
std::string rwkv7_fla_name(int64_t block, std::string_view suffix);

}  // namespace deltasane
