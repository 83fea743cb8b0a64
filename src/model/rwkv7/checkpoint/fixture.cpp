#include "model/rwkv7/checkpoint/fixture.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "format/safetensors/safetensors.h"

namespace deltasane::test {
namespace {

// Splits "blocks.N.rest"; false for tensors of the model.
bool split(const std::string& name, std::string& block, std::string& rest) {
  if (!name.starts_with("blocks.")) return false;
  const size_t dot = name.find('.', 7);
  block = name.substr(7, dot - 7);
  rest = name.substr(dot + 1);
  return true;
}

bool is_factor(const std::string& rest) {
  const Rwkv7Row* const row = rwkv7_block_row(rest);
  return row && row->form == Rwkv7Row::Form::factor;
}

std::string replaced(const std::string& text, std::string_view from, std::string_view to) {
  return text.starts_with(from) ? cat(to, text.substr(from.size())) : text;
}

}  // namespace

SmallModel::SmallModel(const Rwkv7Shape& shape, uint64_t seed) {
  Random random(seed);
  each_rwkv7_tensor(shape, [&](const std::string& name, const Rwkv7Row& row) {
    Tensor<float> tensor(rwkv7_shape(shape, row));
    for (float& x : tensor.span()) x = (float(random.below(255)) - 127) / 64;
    tensors.emplace(name, std::move(tensor));
  });
}

Rwkv7Shape small_shape() {
  Rwkv7Shape shape;
  shape.layers = 3;
  shape.channels = 64;
  shape.heads = 4;
  shape.head_size = 16;
  shape.feed_forward = 96;
  shape.vocabulary = 40;
  shape.rank_w = 8;
  shape.rank_a = 12;
  shape.rank_v = 5;
  shape.rank_g = 20;
  return shape;
}

Rwkv7Shape small_sane_shape() {
  Rwkv7Shape shape = small_shape();
  shape.sane = true;
  return shape;
}

Tensor<float> turned(const Tensor<float>& tensor) {
  const int64_t rows = tensor.shape()[0], columns = tensor.shape()[1];
  Tensor<float> out({columns, rows});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out[j * rows + i] = tensor[i * columns + j];
  return out;
}

Tensor<float> reshaped(const Tensor<float>& tensor, const Shape& shape) {
  Tensor<float> out(shape);
  std::copy_n(tensor.data(), tensor.elements(), out.data());
  return out;
}

void write_named(const fs::path& path, const NamedTensors& tensors, const Metadata& metadata) {
  std::vector<PlannedTensor> plan;
  for (const auto& [name, tensor] : tensors)
    plan.push_back({name, StoredType::f32, tensor.shape()});
  write_safetensors(path, plan, metadata, [&](const PlannedTensor& planned, const Sink& sink) {
    for (const auto& [name, tensor] : tensors)
      if (name == planned.name) sink(std::as_bytes(tensor.span()));
  });
}

NamedTensors as_fla(const SmallModel& model) {
  NamedTensors out;
  for (const auto& [name, tensor] : model.tensors) {
    std::string block, rest;
    if (!split(name, block, rest)) {
      std::string foreign =
          replaced(replaced(name, "emb.", "model.embeddings."), "head.", "lm_head.");
      out.emplace_back(replaced(foreign, "ln_out.", "model.norm."), tensor.clone());
      continue;
    }
    const std::string prefix = cat("model.layers.", block, ".");
    if (rest.starts_with("att.") && rest.size() == 6 &&
        std::string("012").find(rest[5]) != rest.npos) {
      const char member = rest[5];
      const std::string lora = cat(prefix, "attn.", rest[4], "_lora.lora.");
      if (member == '0') out.emplace_back(lora + "2.bias", tensor.clone());
      if (member == '1') out.emplace_back(lora + "0.weight", turned(tensor));
      if (member == '2') out.emplace_back(lora + "2.weight", turned(tensor));
      continue;
    }
    for (const auto& [official, foreign] : {std::pair{"ln0.", "pre_norm."},
                                            {"ln1.", "attn_norm."},
                                            {"ln2.", "ffn_norm."},
                                            {"att.receptance.", "attn.r_proj."},
                                            {"att.key.", "attn.k_proj."},
                                            {"att.value.", "attn.v_proj."},
                                            {"att.output.", "attn.o_proj."},
                                            {"att.ln_x.", "attn.g_norm."},
                                            {"att.", "attn."}})
      if (rest.starts_with(official)) {
        rest = replaced(rest, official, foreign);
        break;
      }
    const bool shift = rest.starts_with("attn.x_");
    out.emplace_back(prefix + rest,
                     shift ? reshaped(tensor, {1, 1, tensor.elements()}) : tensor.clone());
  }
  return out;
}

NamedTensors as_web_rwkv(const SmallModel& model) {
  NamedTensors out;
  for (const auto& [name, tensor] : model.tensors) {
    std::string block, rest;
    const bool factor = split(name, block, rest) && is_factor(rest) && !rest.ends_with("_tau");
    out.emplace_back(name, factor ? turned(tensor) : tensor.clone());
  }
  return out;
}

NamedTensors as_vllm(const SmallModel& model) {
  NamedTensors out;
  for (const auto& [name, tensor] : model.tensors) {
    std::string block, rest;
    const bool factor = split(name, block, rest) && is_factor(rest);
    std::string foreign = name == "head.weight" ? name : cat("model.", name);
    foreign = replaced(foreign, "model.emb.", "model.embeddings.");
    if (factor)
      out.emplace_back(foreign + ".weight", turned(tensor));
    else
      out.emplace_back(foreign, tensor.clone());
  }
  return out;
}

NamedTensors as_smerkyg(const SmallModel& model) {
  NamedTensors out;
  for (const auto& [name, tensor] : model.tensors) {
    std::string block, rest, foreign = cat("model.", name);
    if (split(name, block, rest)) {
      rest = replaced(replaced(rest, "att.", "attention."), "ffn.", "feed_forward.");
      foreign = cat("model.layers.", block, ".", rest);
      foreign = replaced(foreign, "model.layers.0.ln0.", "model.pre_ln.");
    }
    foreign = replaced(foreign, "model.emb.", "model.embeddings.");
    out.emplace_back(replaced(foreign, "model.head.", "lm_head."), tensor.clone());
  }
  return out;
}

void expect_same(const TensorSource& found, const TensorSource& expected) {
  std::vector<std::string> names = found.names(), wanted = expected.names();
  std::sort(names.begin(), names.end());
  std::sort(wanted.begin(), wanted.end());
  ASSERT_EQ(names, wanted);
  for (const std::string& name : names) {
    const Tensor<float> a = found.read(name), b = expected.read(name);
    ASSERT_EQ(a.shape(), b.shape()) << name;
    ASSERT_EQ(found.shape(name), a.shape()) << name;
    ASSERT_TRUE(std::equal(a.span().begin(), a.span().end(), b.span().begin())) << name;
  }
}

}  // namespace deltasane::test
