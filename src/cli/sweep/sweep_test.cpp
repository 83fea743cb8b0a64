// sweep as a person runs it: what is refused before the first step, killed and resumed, worked
// off by several processes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/io/file.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

class Sweep : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return scratch_.path() / name; }

  Sweep() {
    const Rwkv7Shape shape{2, 32, 2, 16, 64, 256, 8, 8, 8, 8}, unnamed{2, 32, 2, 16, 64, 300, 8, 8, 8, 8};
    write_rwkv7_safetensors(at("base.safetensors"), RandomRwkv7(shape, 1), StoredType::f32, {});
    write_rwkv7_safetensors(at("unnamed.safetensors"), RandomRwkv7(unnamed, 1), StoredType::f32, {});
    replace_file(at("tiny.toml"),
                 cat("[model]\nlayers = 2\nchannels = 32\nhead_size = 16\n"
                     "[corpus]\nsource = \"math-chat:level=1\"\n"
                     "[optimizer]\nkind = \"muon\"\nsteps = 8\nrows = 4\ncontext = 32\n"
                     "rate = 0.003\nwarmup = 2\n[run]\nthreads = 1\nsave_every = 1\nfolder = '",
                     at("unused"), "'\n"));
  }
  std::vector<std::string> words(const std::string& out,
                                 const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{DELTASANE_PROGRAM, "sweep",   "--out",           at(out),
                                 "--alphas",        "0,2",     "--samples",       "2",
                                 "--limit",         "2",       "--answer-tokens", "4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> trained(const std::string& out,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all =
        words(out, {"--train", at("tiny.toml"), "--suite", "math-chat:level=1", "--corpus",
                    "math-chat:level=1", "--tokens", "4096"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // Refused before anything is made.
  void expect_refusal(const std::vector<std::string>& command, const std::string& part) const {
    const test::Outcome outcome = test::run(command);
    EXPECT_NE(outcome.exit_code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << "\n" << outcome.output;
    EXPECT_EQ(outcome.output.find("=="), std::string::npos) << "a stage began\n" << outcome.output;
    EXPECT_FALSE(fs::exists(at("refused"))) << part;
  }
  // Processes of this test's folder that are still there.
  size_t left_over() const {
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      const std::string line{std::istreambuf_iterator<char>(file), {}};
      count += line.find(scratch_.path().string()) != std::string::npos;
    }
    return count;
  }

  test::Scratch scratch_;
};

TEST_F(Sweep, RefusesBeforeTheFirstStep) {
  const auto train = [&](const std::vector<std::string>& more) { return trained("refused", more); };
  const auto graft = [&](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> all = words("refused", {"--model", at(model)});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  // A vocabulary that is missing.
  expect_refusal(train({"--set", cat("corpus.tokenizer='", at("nowhere.txt"), "'")}), "nowhere.txt");
  expect_refusal(train({"--tokenizer", at("nowhere.txt")}), "nowhere.txt");
  expect_refusal(graft("unnamed.safetensors", {"--suite", "math-chat"}),
                 "give one with --tokenizer FILE");
  // A disk that is too small for such a model.
  expect_refusal(train({"--set", "model.layers=400", "--set", "model.channels=65536"}),
                 "GB free; free some, lower run.keep, or name another --out");
  // Suites and data.
  expect_refusal(graft("base.safetensors", {"--suite", "svanp", "--data", at("problems")}),
                 "did you mean svamp?");
  expect_refusal(graft("base.safetensors", {"--suite", "svamp", "--data", at("nowhere")}),
                 "data folder ");
  expect_refusal(train({"--set", "corpus.source='npy:nowhere.npy'"}), "nowhere.npy");
  expect_refusal(words("refused", {"--model", at("base.safetensors"), "--corpus", "text:nowhere",
                                   "--tokens", "10", "--tokenizer", "byte"}),
                 "nowhere");
  // Devices.
  expect_refusal(train({"--devices", "cpu,cuda:99"}), "device cuda:99: ");
  // Memory, which train checks, and what else it knows.
  expect_refusal(train({"--set", "optimizer.context=16000000", "--set", "model.layers=200"}),
                 "memory of the host: ");
  expect_refusal(train({"--set", "optimizer.stepps=4"}), "the nearest is 'steps'");
  expect_refusal(train({"--mode", "loud"}), "expected plain, think");
  expect_refusal(graft("nowhere.pth", {"--suite", "math-chat"}), "nowhere.pth");
  expect_refusal(graft("base.safetensors", {"--suite", "math-chat", "--steps", "3"}),
                 "expected --train with --steps");
  expect_refusal(words("refused"), "expected --model or --train, found neither");
}

TEST_F(Sweep, WritesOnePageAndGoesOnWhereItStopped) {
  const test::Outcome whole = test::run(trained("sweep", {"--seed", "4", "--batch", "3"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string page = read_file(at("sweep/sweep.md"));
  for (const char* part : {"--tokens | 4096", "| --seed | 4 |", "## Training", "| alpha-2 | 8 | 1024 |",
                           "## Without a prefix", "## Streams", "## After the stream"})
    EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  // The last stage is done again, the others are not.
  fs::remove_all(at("sweep/alpha-2/eval-after"));
  fs::remove(at("sweep/alpha-2/eval-after.done"));
  const test::Outcome again = test::run(trained("sweep", {"--seed", "4", "--batch", "5"}));
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(again.output.find("== baseline"), std::string::npos) << again.output;
  EXPECT_NE(again.output.find("== alpha-2: eval-after"), std::string::npos) << again.output;
  const std::string same = read_file(at("sweep/sweep.md"));
  EXPECT_EQ(page.substr(page.find("## Training")), same.substr(same.find("## Training")));
  // Standard output is JSON alone.
  std::vector<std::string> silent{"sh", "-c", "exec \"$@\" 2>/dev/null", "sh"};
  for (const std::string& word : trained("sweep", {"--seed", "4", "--json"})) silent.push_back(word);
  const nlohmann::json json = nlohmann::json::parse(test::run(silent).output);
  EXPECT_EQ(json["page"], at("sweep/sweep.md"));
  EXPECT_EQ(json["runs"][1]["name"], "alpha-2");
  EXPECT_EQ(json["table"]["models"].size(), 4u);  // two models, without the stream and after it
  const test::Outcome other = test::run(trained("sweep", {"--seed", "5"}));
  EXPECT_EQ(other.exit_code, 2) << other.output;
  EXPECT_NE(other.output.find("--seed: "), std::string::npos) << other.output;
}

TEST_F(Sweep, StreamsAloneHaveResults) {
  std::vector<std::string> words{"sh", "-c", "exec \"$@\" 2>/dev/null", "sh", DELTASANE_PROGRAM, "sweep",
                                 "--model", at("base.safetensors"), "--alphas", "0,2", "--corpus",
                                 "math-chat:level=1", "--tokens", "4096", "--json", "--out",
                                 at("sweep")};
  const test::Outcome outcome = test::run(words);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const nlohmann::json json = nlohmann::json::parse(outcome.output);
  for (const nlohmann::json& run : json["runs"]) {
    const nlohmann::json& stream = run["stream"];
    EXPECT_EQ(stream["tokens"], 4096) << json;
    EXPECT_EQ(stream["outcome"], "finite") << json;
    EXPECT_DOUBLE_EQ(stream["perplexity"].get<double>(), std::exp(stream["loss"].get<double>()));
    for (const char* const number : {"first_norm", "last_norm", "largest"})
      EXPECT_GT(stream[number], 0) << number;
  }
  const std::string page = read_file(at("sweep/sweep.md"));
  const std::string row = cat("\n| alpha-2 | ", fmt::format("{:.4f}", json["runs"][1]["stream"]["loss"].get<double>()));
  for (const std::string& part : {std::string("| run | loss | perplexity | norm, first |"), row,
                                  std::string(" | finite |\n")})
    EXPECT_NE(page.find(part, page.find("## Streams")), std::string::npos) << part << "\n" << page;
}

TEST_F(Sweep, StepsAndSettingsReachTraining) {
  const test::Outcome outcome = test::run(
      words("sweep", {"--train", at("tiny.toml"), "--steps", "3", "--set", "run.keep=1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(at("sweep/alpha-2/train/step_00000003")));
  EXPECT_FALSE(fs::exists(at("sweep/alpha-2/train/step_00000002")));
}

TEST_F(Sweep, PutsSaneOnAModel) {
  const test::Outcome outcome = test::run(
      words("sweep", {"--model", at("base.safetensors"), "--suite", "math-chat:level=1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(at("sweep/alpha-2/model.safetensors")));
  EXPECT_NE(read_file(at("sweep/sweep.md")).find("alpha-2"), std::string::npos);
  expect_refusal(words("refused", {"--model", at("sweep/alpha-2/model.safetensors"), "--suite",
                                   "math-chat", "--tokenizer", "byte"}),
                 "expected a model without SANE");
}

TEST_F(Sweep, AStoppedTrainingStopsIt) {
  std::string line = cat("'", DELTASANE_PROGRAM, "'");
  for (const std::string& word : words("sweep", {"--train", at("tiny.toml"), "--steps", "1000000"}))
    if (word != DELTASANE_PROGRAM) line += cat(" '", word, "'");
  const test::Outcome outcome = test::run(
      {"sh", "-c", cat(line, " & p=$!; while kill -0 $p && ! [ -e '", at("sweep/baseline/train/step_00000001"),
                       "' ]; do sleep 0.01; done; kill -TERM $(cat /proc/$p/task/$p/children); wait $p")});
  EXPECT_EQ(outcome.exit_code, 130) << outcome.output;
  EXPECT_NE(outcome.output.find("interrupted; run the same command again to resume"), std::string::npos)
      << outcome.output;
  EXPECT_FALSE(fs::exists(at("sweep/baseline/model.done")));
}

// Killed over and over, at later and later moments, with all that it had started.
TEST_F(Sweep, KilledInAnyStageItGoesOn) {
  ASSERT_EQ(test::run(trained("whole")).exit_code, 0);
  int kills = 0;
  for (double seconds = 0.3;; seconds *= 1.4) {
    std::vector<std::string> command = trained("killed");
    command.insert(command.begin(), {"timeout", "-s", "KILL", cat(seconds)});
    const test::Outcome outcome = test::run(command);
    if (outcome.exit_code == 0) break;
    ASSERT_EQ(outcome.exit_code, 128 + 9) << outcome.output;
    for (int wait = 0; wait < 50 && left_over() > 0; ++wait) test::run({"sleep", "0.02"});
    ASSERT_EQ(left_over(), 0u);
    ++kills;
    ASSERT_LT(seconds, 100);
  }
  EXPECT_GT(kills, 1);
  for (const char* name : {"alpha-2/train/step_00000008/model.safetensors",
                           "alpha-2/eval/alpha-2/scores.json",
                           "baseline/eval-after/baseline/scores.json"})
    EXPECT_EQ(read_file(at(cat("killed/", name))), read_file(at(cat("whole/", name)))) << name;
}

TEST_F(Sweep, DevicesWorkOffOneQueueWithALogForEachAlpha) {
  const test::Outcome outcome = test::run(trained("sweep", {"--devices", "cpu,cpu"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("== alpha-2: eval on cpu, "), std::string::npos) << outcome.output;
  for (const char* name : {"baseline", "alpha-2"})
    EXPECT_NE(read_file(at(cat("sweep/", name, "/log.txt"))).find("saved "), std::string::npos);
  // One that fails does not keep the other from its end; it says where to look.
  fs::create_directories(at("broken/alpha-2/train/step_00000003"));  // a damaged checkpoint
  const test::Outcome failed = test::run(trained("broken", {"--devices", "cpu,cpu"}));
  EXPECT_EQ(failed.exit_code, 1) << failed.output;
  EXPECT_NE(failed.output.find(cat("(see ", at("broken/alpha-2/log.txt"), ")")), std::string::npos)
      << failed.output;
  EXPECT_TRUE(fs::exists(at("broken/baseline/eval-after.done")));
}

// One alpha each at a time.
TEST_F(Sweep, SeveralProcessesWorkOffOneQueue) {
  std::vector<std::string> command = trained("sweep");
  command[5] = "0,1,2,3";
  const test::Outcome outcome = test::run_job("", 2, command);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const char* stage : {"== baseline: model", "== alpha-1: model", "== alpha-3: eval-after"}) {
    const size_t first = outcome.output.find(stage);
    ASSERT_NE(first, std::string::npos) << stage << outcome.output;
    EXPECT_EQ(outcome.output.find(stage, first + 1), std::string::npos) << "twice: " << stage;
  }
  EXPECT_TRUE(fs::exists(at("sweep/sweep.md")));
}

}  // namespace
}  // namespace deltasane::cli
