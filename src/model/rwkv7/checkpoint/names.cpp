#include "model/rwkv7/checkpoint/names.h"

#include <charconv>
#include <utility>

namespace deltasane {
namespace {

using Orientation = Rwkv7Meaning::Orientation;
using Pair = std::pair<std::string_view, std::string_view>;

constexpr int64_t max_blocks = 10'000;

bool strip(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

// "12.rest" -> 12, "rest"
std::optional<int64_t> strip_block(std::string_view& name) {
  int64_t block = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), block);
  if (error != std::errc() || block < 0 || block >= max_blocks) return std::nullopt;
  name.remove_prefix(size_t(end - name.data()));
  if (!strip(name, ".")) return std::nullopt;
  return block;
}

constexpr std::array<Pair, 9> block_prefixes{{
    {"attn_norm.", "ln1."},
    {"ffn_norm.", "ln2."},
    {"pre_norm.", "ln0."},
    {"pre_ln.", "ln0."},
    {"attn.", "att."},
    {"self_attn.", "att."},
    {"attention.", "att."},
    {"feed_forward.", "ffn."},
    {"channel_mixer.", "ffn."},
}};
constexpr std::array<Pair, 6> attention_names{{
    {"att.r_proj.weight", "att.receptance.weight"},
    {"att.k_proj.weight", "att.key.weight"},
    {"att.v_proj.weight", "att.value.weight"},
    {"att.o_proj.weight", "att.output.weight"},
    {"att.g_norm.weight", "att.ln_x.weight"},
    {"att.g_norm.bias", "att.ln_x.bias"},
}};
constexpr std::array<Pair, 3> model_names{{
    {"embeddings.weight", "emb.weight"},
    {"norm.", "ln_out."},
    {"lm_head.weight", "head.weight"},
}};
constexpr std::array<Pair, 4> gguf_model_names{{
    {"token_embd.weight", "emb.weight"},
    {"output_norm.weight", "ln_out.weight"},
    {"output_norm.bias", "ln_out.bias"},
    {"output.weight", "head.weight"},
}};
constexpr std::array<Pair, 14> gguf_block_names{{
    {"attn_norm.weight", "ln1.weight"},
    {"attn_norm.bias", "ln1.bias"},
    {"attn_norm_2.weight", "ln2.weight"},
    {"attn_norm_2.bias", "ln2.bias"},
    {"time_mix_receptance.weight", "att.receptance.weight"},
    {"time_mix_key.weight", "att.key.weight"},
    {"time_mix_value.weight", "att.value.weight"},
    {"time_mix_output.weight", "att.output.weight"},
    {"time_mix_ln.weight", "att.ln_x.weight"},
    {"time_mix_ln.bias", "att.ln_x.bias"},
    {"channel_mix_lerp_k.weight", "ffn.x_k"},
    {"channel_mix_key.weight", "ffn.key.weight"},
    {"channel_mix_value.weight", "ffn.value.weight"},
    {"time_mix_lerp_fused.weight", "att.x_rwkvag"},
}};

// The official suffix of a name in a block. `transposed` is set where the name tells so.
std::string official_suffix(std::string_view rest, bool& transposed) {
  std::string name(rest);
  for (const auto& [foreign, official] : block_prefixes)
    if (rest.starts_with(foreign)) {
      name = cat(official, rest.substr(foreign.size()));
      break;
    }
  for (const auto& [foreign, official] : attention_names)
    if (name == foreign) return std::string(official);
  if (name == "att.x_x") return "att.x_rwkvag";
  // att.w_lora.lora.0.weight -> att.w1
  constexpr std::string_view lora = "_lora.lora.";
  if (const size_t at = name.find(lora); at != name.npos) {
    const std::string_view member = std::string_view(name).substr(at + lora.size());
    transposed = true;
    if (member == "0.weight") return name.substr(0, at) + "1";
    if (member == "2.weight") return name.substr(0, at) + "2";
    if (member == "2.bias") return name.substr(0, at) + "0";
  }
  if (name.ends_with(".weight")) {
    const std::string without = name.substr(0, name.size() - 7);
    const Rwkv7Row* const row = rwkv7_block_row(without);
    if (row && row->form == Rwkv7Row::Form::factor) {
      transposed = true;
      return without;
    }
  }
  return name;
}

Rwkv7Meaning in_block(int64_t block, std::string_view suffix) {
  Rwkv7Meaning meaning;
  meaning.block = block;
  meaning.fused = suffix == "att.x_rwkvag";
  meaning.row = rwkv7_block_row(meaning.fused ? rwkv7_fused_order[0] : suffix);
  meaning.dead = meaning.row && !meaning.row->in_block(block);
  return meaning;
}

std::optional<Rwkv7Meaning> checked(const Rwkv7Meaning& meaning) {
  if (!meaning.row) return std::nullopt;
  return meaning;
}

std::optional<Rwkv7Meaning> gguf_meaning(std::string_view name) {
  Rwkv7Meaning meaning;
  if (strip(name, "token_embd_norm.")) return checked(in_block(0, cat("ln0.", name)));
  for (const auto& [foreign, official] : gguf_model_names)
    if (name == foreign) {
      meaning.row = rwkv7_model_row(official);
      return checked(meaning);
    }
  if (!strip(name, "blk.")) return std::nullopt;
  const std::optional<int64_t> block = strip_block(name);
  if (!block) return std::nullopt;
  for (const auto& [foreign, official] : gguf_block_names)
    if (name == foreign) return checked(in_block(*block, official));
  if (!strip(name, "time_mix_") || !name.ends_with(".weight")) return std::nullopt;
  name.remove_suffix(7);
  meaning = in_block(*block, cat("att.", name));
  if (meaning.row && meaning.row->form == Rwkv7Row::Form::factor)
    meaning.orientation = Orientation::transposed;
  return checked(meaning);
}

}  // namespace

std::optional<Rwkv7Meaning> rwkv7_meaning(std::string_view name, std::string_view format) {
  if (format == "gguf") return gguf_meaning(name);
  strip(name, "_forward_module.");
  strip(name, "model.");
  if (strip(name, "pre_ln.")) return checked(in_block(0, cat("ln0.", name)));
  Rwkv7Meaning meaning;
  if (!strip(name, "blocks.") && !strip(name, "layers.")) {
    std::string official(name);
    for (const auto& [foreign, known] : model_names)
      if (name.starts_with(foreign)) official = cat(known, name.substr(foreign.size()));
    meaning.row = rwkv7_model_row(official);
    return checked(meaning);
  }
  const std::optional<int64_t> block = strip_block(name);
  if (!block) return std::nullopt;
  bool transposed = false;
  meaning = in_block(*block, official_suffix(name, transposed));
  if (meaning.row && meaning.row->form == Rwkv7Row::Form::factor && !meaning.row->sane()) {
    if (transposed || format == "rwkv.cpp")
      meaning.orientation = Orientation::transposed;
    else if (format != "pth")
      meaning.orientation = Orientation::by_shape;
  }
  return checked(meaning);
}

std::string rwkv7_gguf_name(int64_t block, std::string_view suffix) {
  if (block < 0) {
    for (const auto& [foreign, official] : gguf_model_names)
      if (official == suffix) return std::string(foreign);
  } else {
    if (suffix.starts_with("ln0.")) return cat("token_embd_norm.", suffix.substr(4));
    for (const auto& [foreign, official] : gguf_block_names)
      if (official == suffix) return cat("blk.", block, ".", foreign);
    if (suffix.starts_with("att."))
      return cat("blk.", block, ".time_mix_", suffix.substr(4), ".weight");
  }
  require(false, "every tensor of RWKV-7 has a GGUF name");
  return {};
}

// FLA's own is the first in each table of names that mean the same.
std::string rwkv7_fla_name(int64_t block, std::string_view suffix) {
  if (block < 0) {
    for (const auto& [foreign, official] : model_names)
      if (suffix.starts_with(official))
        return cat(foreign == "lm_head.weight" ? "" : "model.", foreign,
                   suffix.substr(official.size()));
  }
  const std::string layer = cat("model.layers.", block, ".");
  if (suffix.starts_with("ffn.")) return cat(layer, suffix);
  for (const auto& [foreign, official] : attention_names)
    if (suffix == official) return cat(layer, "attn.", foreign.substr(4));
  // att.w1 -> attn.w_lora.lora.0.weight
  if (suffix.size() == 6 && suffix.starts_with("att.") && suffix[5] >= '0' && suffix[5] <= '2')
    return cat(layer, "attn.", suffix[4], "_lora.lora.",
               suffix[5] == '1' ? "0.weight" : suffix[5] == '2' ? "2.weight" : "2.bias");
  for (const auto& [foreign, official] : block_prefixes)
    if (suffix.starts_with(official)) return cat(layer, foreign, suffix.substr(official.size()));
  require(false, "every tensor of RWKV-7 has a name in FLA");
  return {};
}

}  // namespace deltasane
