// State files, stream runs and training runs of the program before state layouts are continued as
// if it had been this one. Bits depend on the processor: they are compared where it is of the kind
// that wrote the files (test/data/before_layouts/README.md).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/cat.h"
#include "base/io/file.h"
#include "kernel/isa.h"
#include "probe/record_file.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

class BeforeLayouts : public testing::Test {
 protected:
  BeforeLayouts() {
    fs::copy(fs::path(DELTASANE_SOURCE) / "test/data/before_layouts", at(""),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  std::string at(const std::string& name) const { return scratch_.path() / name; }

  static std::string program(std::vector<std::string> words) {
    words.insert(words.begin(), DELTASANE_PROGRAM);
    const test::Outcome outcome = test::run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  }
  // The text that was written, of a state or a prompt or both.
  std::string generate(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"generate", model_, "--threads", "1", "--json"});
    return nlohmann::json::parse(program(flags))["text"];
  }
  static std::vector<std::string> sampled(std::vector<std::string> flags) {
    flags.insert(flags.end(),
                 {"--temperature", "1.2", "--top-p", "0.95", "--top-k", "0", "--presence-penalty",
                  "0.3", "--frequency-penalty", "0.2", "--seed", "5"});
    return flags;
  }
  std::string stream(const std::string& out, const std::string& tokens,
                     const std::vector<std::string>& more) const {
    std::istringstream flags(
        "--threads 1 --corpus math-chat:seed=1 --segment 256 --streams 2 --checkpoint-every 1024 "
        "--snapshots 512 --probe-every 512 --probe-problems 2 --probe-tokens 20 --sane-adaptive");
    std::vector<std::string> words{"stream", model_, "--tokens", tokens, "--out", at(out)};
    for (std::string flag; flags >> flag;) words.push_back(flag);
    words.insert(words.end(), more.begin(), more.end());
    return program(words);
  }
  std::string config(const std::string& folder) const {
    std::string text = read_file(at("train.toml"));
    const std::string named = "folder = \"training\"";
    text.replace(text.find(named), named.size(), cat("folder = '", at(folder), "'"));
    replace_file(at(folder + ".toml"), text);
    return at(folder + ".toml");
  }
  // By step; a resumed run writes on.
  std::map<int64_t, double> losses(const std::string& folder) const {
    std::map<int64_t, double> all;
    std::istringstream lines(read_file(at(folder + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const auto row = nlohmann::json::parse(line);
      all[row["step"]] = row["loss"];
    }
    return all;
  }
  // Of files written here and, in part, by the program before.
  void expect_same_bits(const std::string& one, const std::string& other) const {
    if (same_processor()) {
      EXPECT_EQ(read_file(at(one)), read_file(at(other))) << one;
    }
  }
  static bool same_processor() {
    return kernel::float_isa(kernel::best_isa()) == kernel::Isa::neon;
  }

  test::Scratch scratch_;
  const std::string model_ = at("training/step_00000060/model.safetensors");
};

const std::string prompt = "User: What is 12 + 34 + 56 + 78?", rest = "\n\nAssistant: ";

// The state is one after whole chunks, so that the cut leaves no trace.
TEST_F(BeforeLayouts, APromptIsReadOnFromItsState) {
  const std::string continued =
      generate({"--state-in", at("prompt.state"), "--prompt", rest, "--tokens", "30",
                "--temperature", "0", "--state-out", at("continued.state")});
  const std::string whole = generate({"--prompt", prompt + rest, "--tokens", "30", "--temperature",
                                      "0", "--state-out", at("whole.state")});
  EXPECT_EQ(continued.size(), 30u);
  EXPECT_EQ(continued, whole);
  expect_same_bits("continued.state", "whole.state");
}

TEST_F(BeforeLayouts, ATextIsWrittenOnFromItsStateAndSampler) {
  const std::string continued = generate(sampled(
      {"--state-in", at("text.state"), "--tokens", "40", "--state-out", at("continued.state")}));
  EXPECT_EQ(continued, "sistant: 8\n\nAssistant: 14\n\nAssistant: 0\n");  // as that program wrote
  const std::string whole =
      generate(sampled({"--prompt", prompt, "--tokens", "48", "--state-out", at("whole.state")}));
  EXPECT_EQ(whole.substr(8), continued);
  expect_same_bits("continued.state", "whole.state");
}

TEST_F(BeforeLayouts, AStreamIsResumed) {
  const std::string said = stream("stream", "2048", {"--resume", "--resume-unverified"});
  EXPECT_NE(said.find("resumed at           1024\n"), said.npos) << said;
  stream("whole", "2048", {});
  for (const char* name : {"segments.rec", "heads.rec", "probes.rec"}) {
    const fs::path resumed = at(cat("stream/", name)), whole = at(cat("whole/", name));
    EXPECT_EQ(probe::read_records(resumed).rows, probe::read_records(whole).rows) << name;
    if (name != std::string("heads.rec"))
      expect_same_bits(cat("stream/", name), cat("whole/", name));
  }
  // A new run has one more column of heads, and losses of single tokens; an older one continues without.
  const auto old_heads = probe::read_records(at("stream/heads.rec"));
  const auto new_heads = probe::read_records(at("whole/heads.rec"));
  EXPECT_FALSE(old_heads.has("below_0.1") || fs::exists(at("stream/losses.rec")));
  EXPECT_TRUE(new_heads.has("below_0.1") && fs::exists(at("whole/losses.rec")));
  for (size_t c = 0; c < old_heads.header.columns.size(); ++c) {
    EXPECT_EQ(old_heads.header.columns[c], new_heads.header.columns[c]);
    if (!same_processor()) continue;
    EXPECT_EQ(old_heads.values[c].integers, new_heads.values[c].integers);
    EXPECT_EQ(old_heads.values[c].reals, new_heads.values[c].reals);
  }
  const auto resumed = probe::read_records(at("stream/segments.rec"));
  const auto whole = probe::read_records(at("whole/segments.rec"));
  ASSERT_EQ(resumed.rows, 2 * 8);
  EXPECT_EQ(resumed.integers("position"), whole.integers("position"));
  for (const double loss : resumed.reals("loss")) EXPECT_TRUE(std::isfinite(loss));
  // Its snapshots are state files of version 1.
  for (const char* name : {"0", "1"})
    program({"diagnose", at(cat("stream/snapshots/stream-", name, "-position-512.state"))});
}

TEST_F(BeforeLayouts, ATrainingRunIsResumed) {
  const std::string said = program({"train", config("training"), "--resume"});
  EXPECT_NE(said.find("step_00000060"), said.npos) << said;
  // Those were the defaults then.
  program({"train", config("whole"), "--set", "optimizer.beta2=0.99", "--set",
           "optimizer.epsilon=1e-18"});
  const auto resumed = losses("training"), whole = losses("whole");
  ASSERT_EQ(resumed.size(), 120u);
  ASSERT_EQ(whole.size(), 120u);
  for (const auto& [step, loss] : whole) {
    EXPECT_TRUE(std::isfinite(resumed.at(step)));
    EXPECT_TRUE(!same_processor() || resumed.at(step) == loss) << step;
  }
  for (const char* name : {"model.safetensors", "optimizer.safetensors"})
    expect_same_bits(cat("training/step_00000120/", name), cat("whole/step_00000120/", name));
}

}  // namespace
}  // namespace deltasane::cli
