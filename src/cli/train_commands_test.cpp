// graft and train as a person runs them, alone and with several processes.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "format/rwkv7_write.h"
#include "model/random_rwkv7.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

class TrainCommands : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return scratch_.path() / name; }

  static test::Outcome program(std::vector<std::string> words) {
    words.insert(words.begin(), DELTASANE_PROGRAM);
    return test::run(words);
  }
  static test::Outcome two_processes(const std::vector<std::string>& command) {
    return test::run_job(DELTASANE_MPIEXEC, 2, command);
  }

  // A few steps of a tiny model.
  std::string config(const std::string& name, int steps) const {
    replace_file(at(name + ".toml"),
                 cat("[model]\nlayers = 2\nchannels = 32\nhead_size = 16\nsane_alpha = 2\n"
                     "[corpus]\nsource = \"math-chat:level=1\"\n"
                     "[optimizer]\nkind = \"muon\"\nsteps = ",
                     steps,
                     "\nsequences = 4\ncontext = 32\nrate = 0.003\nwarmup = 2\n"
                     "[run]\nthreads = 1\nsave_every = 2\nfolder = '",
                     at(name), "'\n"));
    return at(name + ".toml");
  }
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    std::istringstream lines(read_file(at(name + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      all.push_back(nlohmann::json::parse(line)["loss"]);
    return all;
  }

  test::Scratch scratch_;
};

TEST_F(TrainCommands, GraftEqualsRunTimeSane) {
  const Rwkv7Shape shape{2, 32, 2, 16, 128, 256, 8, 8, 8, 8};
  write_rwkv7_safetensors(at("base.safetensors"), RandomRwkv7(shape, 1), StoredType::f32, {});
  replace_file(at("text"), std::string(100, 'x') + "1+1=2 and so on, past some chunks of 16");
  ASSERT_EQ(program({"graft", at("base.safetensors"), at("held.safetensors"), "--alpha", "0.5"})
                .exit_code,
            0);
  const auto logits = [&](const std::string& model, const std::vector<std::string>& more) {
    std::vector<std::string> words{"score",    at(model),  "--text",
                                   at("text"), "--logits", at("logits.npy")};
    words.insert(words.end(), more.begin(), more.end());
    const test::Outcome outcome = program(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return read_file(at("logits.npy"));
  };
  const std::string grafted = logits("held.safetensors", {});
  EXPECT_EQ(grafted, logits("base.safetensors", {"--sane-alpha", "0.5"}));
  EXPECT_NE(grafted, logits("base.safetensors", {}));
}

TEST_F(TrainCommands, SweepGoesOnWhereItStopped) {
  const std::vector<std::string> words{"sweep",     "--train",     config("base", 4),
                                       "--alphas",  "0,2",         "--out",
                                       at("sweep"), "--corpus",    "math-chat:level=1",
                                       "--tokens",  "4096",        "--suite",
                                       "math-chat", "--limit",     "2",
                                       "--samples", "2",           "--answer-tokens",
                                       "4",         "--tokenizer", "byte"};
  const test::Outcome whole = program(words);
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string table = read_file(at("sweep/eval-after.md"));
  EXPECT_NE(table.find("alpha-2"), std::string::npos) << table;
  // The last steps are done again, the first are not.
  fs::remove_all(at("sweep/alpha-2/eval-after"));
  fs::remove(at("sweep/alpha-2/eval-after.done"));
  const test::Outcome again = program(words);
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(again.output.find("== baseline"), std::string::npos) << again.output;
  EXPECT_NE(again.output.find("== alpha-2: eval-after"), std::string::npos) << again.output;
  EXPECT_EQ(read_file(at("sweep/eval-after.md")), table);
  EXPECT_EQ(program({"sweep", "--out", at("nothing")}).exit_code, 2);
}

TEST_F(TrainCommands, DevicesAreNamedOrRefused) {
  const std::string small = config("devices", 2);
  EXPECT_EQ(program({"train", small, "--device", "cpu"}).exit_code, 0);
  for (const char* const command : {"train", "bench"}) {
    const bool trains = std::string_view(command) == "train";
    const std::vector<std::string> words =
        trains ? std::vector<std::string>{"train", small, "--resume"}
               : std::vector<std::string>{"bench", "train"};
    const auto on = [&](const char* device) {
      std::vector<std::string> all = words;
      all.insert(all.end(), {"--device", device});
      return program(all);
    };
    const test::Outcome unknown = on("gpu"), beyond = on("cuda:99");
    EXPECT_EQ(unknown.exit_code, 2) << unknown.output;
    EXPECT_NE(unknown.output.find("--device: expected cpu, cuda or cuda:N, found 'gpu'"),
              std::string::npos);
    EXPECT_NE(beyond.exit_code, 0) << beyond.output;  // no such device, or no CUDA at all
    EXPECT_NE(beyond.output.find("device cuda:99: "), std::string::npos) << beyond.output;
  }
}

TEST_F(TrainCommands, ProcessesTogetherLearnWhatOneDoes) {
  if (std::string_view(DELTASANE_MPIEXEC).empty()) GTEST_SKIP() << "this build has no MPI";
  ASSERT_EQ(program({"train", config("one", 6)}).exit_code, 0);
  const test::Outcome two = two_processes({DELTASANE_PROGRAM, "train", config("two", 4)});
  ASSERT_EQ(two.exit_code, 0) << two.output;
  config("two", 6);  // and on with more steps: another schedule is another run, and told so
  const test::Outcome other =
      two_processes({DELTASANE_PROGRAM, "train", at("two.toml"), "--resume"});
  EXPECT_NE(other.exit_code, 0);
  EXPECT_NE(other.output.find("steps"), std::string::npos) << other.output;
  const test::Outcome whole = two_processes({DELTASANE_PROGRAM, "train", config("both", 6)});
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const auto alone = losses("one"), together = losses("both");
  ASSERT_EQ(alone.size(), 6u);
  ASSERT_EQ(together.size(), 6u);
  // Rounding of sums of 4 x 32 losses in another order, carried on by a few steps.
  for (size_t i = 0; i < alone.size(); ++i)
    EXPECT_NEAR(together[i], alone[i], 1e-5 * alone[i]) << i;
}

TEST_F(TrainCommands, ProcessesThatDisagreeAreTold) {
  if (std::string_view(DELTASANE_MPIEXEC).empty()) GTEST_SKIP() << "this build has no MPI";
  config("a", 6), config("b", 8);
  const test::Outcome outcome =
      two_processes({"sh", "-c",
                     cat("exec '", DELTASANE_PROGRAM, "' train '", scratch_.path().string(),
                         "/'$(test $OMPI_COMM_WORLD_RANK = 0 && echo a || echo b).toml")});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("configuration: expected the same on every process"),
            std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace deltasane::cli
