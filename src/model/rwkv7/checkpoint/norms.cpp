#include "model/rwkv7/checkpoint/norms.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/printable.h"

namespace deltasane {
namespace {

constexpr std::string_view max_norm = "max(norm, 1e-12)", rsqrt_norm = "rsqrt(sum + 1e-6)";

std::string_view text_at(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<double> eps_at(const Metadata& metadata, const char* key, std::string_view where) {
  if (!metadata.contains(key)) return std::nullopt;
  const std::string_view text = text_at(metadata, key);
  double eps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), eps);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(eps) || eps <= 0)
    fail(Fault::file, where, ": ", key, ": expected a number above 0, found ", printable(text));
  return eps;
}

}  // namespace

void derive_rwkv7_norms(Metadata& metadata) {
  for (const char* const key : {"config.norm_eps", "rwkv7.attention.layer_norm_epsilon"})
    if (const std::string_view eps = text_at(metadata, key); !eps.empty() && eps != "null")
      metadata["rwkv7.norm_eps"] = eps;
  if (const auto group = metadata.find("config.group_norm_eps"); group != metadata.end())
    metadata["rwkv7.group_norm_eps"] = group->second;
  if (metadata.contains("config.fuse_norm"))
    metadata["rwkv7.key_norm"] =
        text_at(metadata, "config.fuse_norm") == "true" ? rsqrt_norm : max_norm;
  metadata.try_emplace("rwkv7.key_norm", max_norm);
}

Rwkv7Norms rwkv7_norms(const Metadata& metadata, int64_t head_size, std::string_view where) {
  Rwkv7Norms norms;
  const auto layer = eps_at(metadata, "rwkv7.norm_eps", where);
  if (layer) norms.layer_eps = float(*layer);
  if (layer && metadata.contains("config.norm_eps"))
    norms.group_eps = float(double(head_size) * *layer);
  if (const auto group = eps_at(metadata, "rwkv7.group_norm_eps", where))
    norms.group_eps = float(*group);
  const std::string_view key = text_at(metadata, "rwkv7.key_norm");
  if (key == rsqrt_norm)
    norms.key = kernel::rsqrt_key_norm;
  else if (!key.empty() && key != max_norm)
    fail(Fault::file, where, ": rwkv7.key_norm: expected ", max_norm, " or ", rsqrt_norm,
         ", found ", printable(key));
  return norms;
}

Metadata rwkv7_norm_metadata(const Rwkv7Norms& norms) {
  const Rwkv7Norms official;
  Metadata metadata;
  if (norms.layer_eps != official.layer_eps) metadata["rwkv7.norm_eps"] = cat(norms.layer_eps);
  if (norms.group_eps != official.group_eps)
    metadata["rwkv7.group_norm_eps"] = cat(norms.group_eps);
  if (norms.key != official.key) metadata["rwkv7.key_norm"] = rsqrt_norm;
  return metadata;
}

}  // namespace deltasane
