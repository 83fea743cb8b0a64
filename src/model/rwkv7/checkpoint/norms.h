// The norms of an RWKV-7 in metadata:
//
//   rwkv7.norm_eps         of the layer norms, where a file states it (FLA's norm_eps, GGUF's
//                          layer_norm_epsilon); 1e-5 where it does not
//   rwkv7.group_norm_eps   of ln_x; where it is not stated 64e-5, whatever the heads' size, but FLA's
//                          is head size times norm_eps, unless group_norm_eps is beside it
//   rwkv7.key_norm         how the key direction was normalized in training: "max(norm, 1e-12)", or
//                          "rsqrt(sum + 1e-6)" for FLA models with fuse_norm
#pragma once

#include <string_view>

#include "format/tensor_file.h"
#include "model/rwkv7/checkpoint/tensor_table.h"

namespace deltasane {

// rwkv7.norm_eps and rwkv7.key_norm as other programs' keys say them.
void derive_rwkv7_norms(Metadata& metadata);

// An unknown or impossible value fails. `where` begins the message.
Rwkv7Norms rwkv7_norms(const Metadata& metadata, int64_t head_size, std::string_view where);

// The keys of what differs from the official norms.
Metadata rwkv7_norm_metadata(const Rwkv7Norms& norms);

}  // namespace deltasane
