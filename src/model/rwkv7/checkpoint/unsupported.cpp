#include "model/rwkv7/checkpoint/unsupported.h"

#include <algorithm>
#include <array>

#include "base/printable.h"

namespace deltasane {
namespace {

struct Sign {
  std::string_view part;  // of a tensor's name
  std::string_view architecture;
};
// Tensors that RWKV-7 does not have although r_k may be there too.
constexpr std::array<Sign, 3> extensions{{
    {".ffn.enn.", "RWKV-8 (prototype with ffn.enn)"},
    {".qkv.", "rwkv7b (RWKV-7 with DeepEmbedAttention)"},
    {".ffn.s_emb", "rwkv7a (RWKV-7 with DeepEmbed)"},
}};
// In order: a later architecture keeps tensors of the earlier ones.
constexpr std::array<Sign, 5> predecessors{{
    {"time_maa_x", "RWKV-6"},
    {"time_mix_w2", "RWKV-6"},
    {"att.gate.weight", "RWKV-5"},
    {"att.ln_x.weight", "RWKV-5"},
    {"att.time_first", "RWKV-4"},
}};

template <size_t count>
const Sign* seen(const TensorFile& file, const std::array<Sign, count>& signs) {
  for (const Sign& sign : signs)
    for (const StoredTensor& tensor : file.tensors())
      if (tensor.name.find(sign.part) != std::string::npos) return &sign;
  return nullptr;
}

[[noreturn]] void refuse(const TensorFile& file, std::string_view architecture) {
  fail(Fault::file, file.path(), ": expected an RWKV-7 model, found ", architecture);
}

void check_stated(const TensorFile& file, const char* key) {
  const auto stated = file.metadata().find(key);
  if (stated != file.metadata().end() && stated->second != "rwkv7")
    refuse(file, cat("architecture ", printable(stated->second), " (", key, ")"));
}

}  // namespace

bool is_rwkv7(const TensorFile& file) {
  for (const char* const key : {"general.architecture", "config.model_type", "architecture"})
    if (const auto stated = file.metadata().find(key); stated != file.metadata().end())
      return stated->second == "rwkv7";
  return std::ranges::any_of(file.tensors(), [](const StoredTensor& tensor) {
    return tensor.name.find("r_k") != std::string::npos;
  });
}

void refuse_other_architectures(const TensorFile& file) {
  if (file.format() == "gguf" && !file.metadata().contains("general.architecture"))
    refuse(file, "a GGUF file without general.architecture");
  check_stated(file, "general.architecture");
  check_stated(file, "config.model_type");
  if (const Sign* const sign = seen(file, extensions)) refuse(file, sign->architecture);
  for (const StoredTensor& tensor : file.tensors())
    if (tensor.name.find("r_k") != std::string::npos) return;
  if (const Sign* const sign = seen(file, predecessors)) refuse(file, sign->architecture);
  if (file.tensors().empty()) refuse(file, "no tensors");
  refuse(file, cat("another one: no tensor is called r_k, the first is ",
                   printable(file.tensors().front().name)));
}

}  // namespace deltasane
