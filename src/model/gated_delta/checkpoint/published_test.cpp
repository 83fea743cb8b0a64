// Folders in the programs that they are for, which run them without SANE.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "model/gated_delta/checkpoint/fixture_published.h"
#include "model/gated_delta/fixture.h"
#include "model/gated_delta/reference.h"
#include "support/process.h"
#include "tensor/closeness.h"

namespace deltasane::gated_delta {
namespace {

// DELTASANE_PYTHON, or python3.
test::Outcome python(std::vector<std::string> words) {
  const char* const named = std::getenv("DELTASANE_PYTHON");
  words.insert(words.begin(), {named ? named : "python3",
                               DELTASANE_SOURCE "/test/support/load_published.py"});
  return test::run(words);
}

bool is_fla(const Config& c) {
  return c.model_type == "gated_deltanet" || c.model_type == "delta_net" || c.model_type == "kda";
}

// The bound is that of docs/numerics.md for whole models.
void expect_logits(const Config& config, const char* library) {
  const SmallModel small(config, SaneSettings{0.5, 3});
  const fs::path folder = small.scratch.path() / "folder";
  fs::create_directory(folder);
  open_checkpoint(small.path)->write_hugging_face(folder, StoredType::f32, 3);
  const std::vector<int32_t> tokens = random_tokens(21, config.vocabulary);
  const fs::path out = small.scratch.path() / "logits";
  const test::Outcome ran = python({library, folder, nlohmann::json(tokens).dump(), out});
  ASSERT_EQ(ran.exit_code, 0) << config.model_type << ran.output;
  const std::string bytes = read_file(out);
  std::vector<float> found(tokens.size() * size_t(config.vocabulary));
  ASSERT_EQ(bytes.size(), found.size() * sizeof(float)) << config.model_type;
  std::memcpy(found.data(), bytes.data(), bytes.size());
  const auto plain = reference::forward<float>(config, small.source, {}, tokens);
  const auto truth = reference::forward<double>(config, small.source, {}, tokens);
  const Closeness close = closeness(found, plain.logits, truth.logits, Criterion::rms_error);
  EXPECT_TRUE(close.close) << config.model_type << close.explanation();
}

TEST(PublishedFamily, TransformersRunsTheFolder) {
  if (python({"imports", "torch", "transformers"}).exit_code != 0)
    GTEST_SKIP() << "this Python has no transformers";
  for (const Config& config : published_configs())
    if (!is_fla(config)) expect_logits(config, "transformers");
}

TEST(PublishedFamily, FlaRunsTheFolder) {
  if (python({"imports", "torch", "triton", "safetensors", "fla.models"}).exit_code != 0)
    GTEST_SKIP() << "this Python has no fla";
  for (const Config& config : published_configs())
    if (is_fla(config) && !config.has(Mixer::attention))  // that needs a library for GPUs
      expect_logits(config, "fla");
}

}  // namespace
}  // namespace deltasane::gated_delta
