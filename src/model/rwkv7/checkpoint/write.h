// Writes a whole RWKV-7 model, one tensor at a time, replacing `path` as a whole or not at all.
//
// A SANE model needs the metadata sane.alpha and sane.chunk; a baseline must not have them.
#pragma once

#include "model/gguf_request.h"
#include "model/rwkv7/checkpoint/source.h"
#include "model/sane.h"

namespace deltasane {

// Our native format: safetensors with the official names, shapes and orientation; vectors that
// official files spread are [1, 1, C]. Every tensor is of `type`: f32, f16 or bf16.
void write_rwkv7_safetensors(const fs::path& path, const TensorSource& source, StoredType type,
                             const Metadata& metadata);

// GGUF as llama.cpp reads it. The request's types are those of the large matrices; vectors, the
// fused token shifts and the factors w1, w2 are always f32, and the other low-rank factors are never
// quantised (f16 in a file of such types). A matrix that has its type already is copied as it is.
// Block 0 gets copies of a0, a1, a2 as v0, v1, v2: llama.cpp wants something there and never reads it.
// Without a tokenizer the file says so, and llama.cpp takes token numbers only.
//
// SANE models add sane.alpha (f32), sane.chunk (u32), blk.N.time_mix_x_tau.weight of C and
// blk.N.time_mix_w_tau.weight, transposed like the low-rank factors (ggml sizes C, H), both f32.
// llama.cpp refuses such a file: it counts the tensors it knows.
void write_rwkv7_gguf(const fs::path& path, const TensorSource& source, const GgufRequest& request);

}  // namespace deltasane
