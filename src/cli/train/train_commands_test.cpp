// graft and train as a person runs them, alone and with several processes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/io/file.h"
#include "format/npy/fixture_indexed.h"
#include "format/npy/npy.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "support/process.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::cli {
namespace {

class TrainCommands : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return scratch_.path() / name; }

  static test::Outcome program(std::vector<std::string> words) {
    words.insert(words.begin(), DELTASANE_PROGRAM);
    return test::run(words);
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

// One key of a config made other, or a line added behind another; the config's name.
std::string replaced(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  replace_file(path, text.replace(at, from.size(), to));
  return path;
}

void expect_refusal(const test::Outcome& outcome, int exit_code, const std::string& part) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output;
  EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
}

TEST_F(TrainCommands, UnknownKeysAreNamedWithTheNearest) {
  expect_refusal(program({"train", replaced(config("a", 2), "warmup", "warm_up")}), 2,
                 "optimizer.warm_up: expected a known key, found 'warm_up'; the nearest is "
                 "'warmup'");
  expect_refusal(program({"train", replaced(config("a", 2), "kind", "precision = 'half'\nkind")}),
                 2, "optimizer.precision: expected fp32 or bf16, found 'half'");
}

TEST_F(TrainCommands, DataShorterThanAStepAreRefused) {
  replace_file(at("t.txt"), "some fifty bytes of text are not enough for a step");
  replace_file(at("r.jsonl"), "{\"question\": \"1+1\", \"answer\": \"2\"}\n");
  NpyWriter writer(at("t.npy"), StoredType::i32, {});
  writer.append(std::vector<int32_t>(131, 7));  // a step is 4 x 33
  writer.commit();
  const test::IndexedFiles files = test::indexed_files({{1, 2, 3, 0}, {4, 5, 0}});
  replace_file(at("x.idx"), files.index);
  replace_file(at("x.bin"), files.tokens);
  const auto train_on = [&](const std::string& source, const std::string& rows) {
    return program({"train", replaced(config("a", 2), "source = \"math-chat:level=1\"",
                                      cat("rows = '", rows, "'\nsource = '", source, "'"))});
  };
  const std::string text = cat("text:", at("t.txt"));
  for (const std::string& source :
       {text, cat("prose:", at("t.txt")), cat("jsonl:", at("r.jsonl")), cat("npy:", at("t.npy")),
        cat("binidx:", at("x")), cat("mixed:1*(", text, ")+2*(", text, ")")}) {
    expect_refusal(train_on(source, "packed"), 1, "expected at least 132 tokens for 4 rows");
    expect_refusal(train_on(source, "pieces"), 1, "expected at least 4 pieces for 4 rows");
  }
  EXPECT_EQ(train_on(cat("mixed:1*(", text, ")+2*(npy:", at("t.npy"), ")"), "packed").exit_code, 0);
}

TEST_F(TrainCommands, TokensThatCannotBeAreRefused) {
  const auto train_on = [&](const std::string& name, const std::string& model) {
    const std::string path = replaced(config("a", 2), "source = \"math-chat:level=1\"",
                                      cat("source = 'npy:", at(name), "'"));
    return program({"train", replaced(path, "layers = 2", model)});
  };
  NpyWriter ids(at("ids.npy"), StoredType::i32, {});
  ids.append(std::vector<int32_t>(500, 300));
  ids.commit();
  expect_refusal(train_on("ids.npy", "layers = 2"), 1,
                 "expected ids below 256 (tokenizer byte), found 300");
  NpyWriter letters(at("letters.npy"), StoredType::i32, {});
  letters.append(std::vector<int32_t>(500, 99));
  letters.commit();
  expect_refusal(train_on("letters.npy", "layers = 2\nvocabulary = 64"), 1,
                 "expected token ids below 64, the model's vocabulary, found 99");
  NpyWriter floats(at("floats.npy"), StoredType::f32, {});
  floats.append(std::vector<float>(500, 1));
  floats.commit();
  expect_refusal(train_on("floats.npy", "layers = 2"), 1,
                 "expected integers in one or two dimensions, found f32");
}

// Both ways of giving tokens train alike.
TEST_F(TrainCommands, TrainsOnIndexedTokensInBf16) {
  std::vector<uint16_t> tokens;
  for (size_t i = 0; i < 600; ++i) tokens.push_back(uint16_t(i * i % 256));
  const test::IndexedFiles files = test::indexed_files({tokens});
  replace_file(at("x.idx"), files.index);
  replace_file(at("x.bin"), files.tokens);
  NpyWriter writer(at("x.npy"), StoredType::i32, {});
  writer.append(std::vector<int32_t>(tokens.begin(), tokens.end()));
  writer.commit();
  const auto train_on = [&](const std::string& name, const std::string& source) {
    const std::string path =
        replaced(config(name, 3), "source = \"math-chat:level=1\"", cat("source = '", source, "'"));
    const test::Outcome outcome =
        program({"train", replaced(path, "kind", "precision = \"bf16\"\nkind")});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return losses(name);
  };
  const auto indexed = train_on("i", cat("binidx:", at("x.bin")));
  EXPECT_EQ(indexed, train_on("n", cat("npy:", at("x.npy"))));
  EXPECT_EQ(indexed.size(), 3u);
}

TEST_F(TrainCommands, AFullDiskDoesNotEndARun) {
  const std::string path = replaced(config("a", 6), "save_every", "keep = 9\nsave_every");
  ASSERT_EQ(program({"train", path}).exit_code, 0);
  const std::string whole = read_file(at("a/step_00000006/model.safetensors"));
  for (const char* later : {"a/step_00000006", "a/step_00000004"}) fs::remove_all(at(later));
  ASSERT_TRUE(fs::exists(at("a/step_00000002")));
  // A limit on the size of files stands for a full disk.
  const test::Outcome full = test::run({"sh", "-c",
                                        cat("trap '' XFSZ; ulimit -f 32; exec '", DELTASANE_PROGRAM,
                                            "' train '", path, "' --resume")});
  expect_refusal(full, 1, "no checkpoint at step 4: ");
  expect_refusal(full, 1, "no checkpoint at step 6: ");
  EXPECT_TRUE(fs::exists(at("a/step_00000002/manifest.json")));
  const test::Outcome again = program({"train", path, "--resume"});
  const test::Outcome finished = program({"train", path, "--resume"});
  EXPECT_NE(finished.output.find("\nalready finished: all "), std::string::npos) << finished.output;
  EXPECT_EQ(finished.output.find("time: about"), std::string::npos) << finished.output;
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_NE(again.output.find("resumed from"), std::string::npos) << again.output;
  EXPECT_EQ(read_file(at("a/step_00000006/model.safetensors")), whole);
}

TEST_F(TrainCommands, AStoppedTrainingIsTold) {
  const std::string path = config("a", 1'000'000);
  const test::Outcome stopped = test::run(
      {"sh", "-c", cat("'", DELTASANE_PROGRAM, "' train '", path, "' & p=$!; while kill -0 $p && ! [ -e '",
                       at("a"), "/step_00000002' ]; do sleep 0.01; done; kill -TERM $p; wait $p")});
  expect_refusal(stopped, 130, "; continue with --resume");
  const std::string& said = stopped.output;
  const size_t saved = said.rfind("saved ") + 6;
  expect_refusal(program({"train", path, "--resume", "--check"}), 0,
                 cat("resumed from ", said.substr(saved, said.find('\n', saved) - saved)));
}

TEST_F(TrainCommands, ACheckpointOfAnotherShapeIsRefused) {
  ASSERT_EQ(program({"train", config("a", 2)}).exit_code, 0);
  expect_refusal(
      program({"train", replaced(config("a", 2), "channels = 32", "channels = 48"), "--resume"}), 2,
      "was made with '32'; expected the same to resume, found '48'");
}

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

TEST_F(TrainCommands, DevicesAreNamedOrRefused) {
  const std::string small = replaced(config("devices", 2), "head_size = 16", "head_size = 64");
  replaced(small, "channels = 32", "channels = 64");  // as a GPU takes it, if there is one
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
    EXPECT_NE(unknown.output.find("device: expected cpu, cuda or cuda:N, found 'gpu'"),
              std::string::npos);
    EXPECT_NE(beyond.exit_code, 0) << beyond.output;  // no such device, or no CUDA at all
    EXPECT_NE(beyond.output.find("device cuda:99: "), std::string::npos) << beyond.output;
  }
}

// Two processes, started by mpirun or by hand.
class TrainTogether : public TrainCommands, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (by_mpi() && std::string_view(DELTASANE_MPIEXEC).empty())
      GTEST_SKIP() << "this build has no MPI";
  }
  static bool by_mpi() { return std::string_view(GetParam()) == "mpirun"; }
  static test::Outcome two_processes(const std::vector<std::string>& command) {
    return test::run_job(by_mpi() ? DELTASANE_MPIEXEC : "", 2, command);
  }
  // What each does, a shell's command that knows its rank as $rank.
  static test::Outcome two_shells(const std::string& command) {
    return two_processes({"sh", "-c", "rank=${OMPI_COMM_WORLD_RANK:-$DELTASANE_RANK}\n" + command});
  }
};
INSTANTIATE_TEST_SUITE_P(Ways, TrainTogether, testing::Values("mpirun", "sockets"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(TrainTogether, ProcessesLearnWhatOneDoes) {
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

TEST_P(TrainTogether, ProcessesThatDisagreeAreTold) {
  config("a", 6), config("b", 8);
  const test::Outcome outcome =
      two_shells(cat("exec '", DELTASANE_PROGRAM, "' train '", scratch_.path().string(),
                     "/'$(test $rank = 0 && echo a || echo b).toml"));
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("configuration: expected the same on every process"),
            std::string::npos)
      << outcome.output;
}

TEST_P(TrainTogether, AProcessThatIsKilledEndsTheJobWhichResumes) {
  constexpr int steps = 40;
  const test::Outcome whole = two_processes({DELTASANE_PROGRAM, "train", config("whole", steps)});
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const std::string path = config("killed", steps);
  // Rank 1 is killed as soon as there is a checkpoint.
  const test::Outcome killed =
      two_shells(cat("test $rank = 0 && exec '", DELTASANE_PROGRAM, "' train '", path, "'\n'",
                     DELTASANE_PROGRAM, "' train '", path, "' & while ! test -e '", at("killed"),
                     "/step_00000002'; do sleep 0.01; done; kill -9 $!; wait $!"));
  EXPECT_NE(killed.exit_code, 0) << killed.output;
  EXPECT_NE(killed.output.find(by_mpi() ? "exit" : "rank 1 of 2: expected it to be running"),
            std::string::npos)
      << killed.output;
  EXPECT_FALSE(fs::exists(at(cat("killed/step_000000", steps)))) << "it ended before it was killed";
  const test::Outcome again = two_processes({DELTASANE_PROGRAM, "train", path, "--resume"});
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_EQ(losses("killed"), losses("whole"));
}

// One GPU is enough: two processes share it.
TEST_F(TrainCommands, OnGpuProcessesLearnWhatOneDoes) {
  if constexpr (!built_with_cuda) {
    GTEST_SKIP() << "this build has no CUDA";
  } else {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
    // AdamW: Muon multiplies in bf16, and would make much of the last bit of a sum.
    const auto on_gpu = [&](const std::string& name, const std::string& run) {
      std::string path = replaced(config(name, 6), "head_size = 16", "head_size = 64");
      replaced(path, "channels = 32", "channels = 128");
      replaced(path, "kind = \"muon\"", "kind = \"adamw\"");
      return replaced(path, "[run]\n", "[run]\n" + run);
    };
    const auto trained = [&](const std::string& name, int processes, const std::string& run) {
      const test::Outcome outcome = test::run_job(
          "", processes, {DELTASANE_PROGRAM, "train", on_gpu(name, run), "--device", "cuda"});
      EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
      return losses(name);
    };
    const auto alone = trained("alone", 1, "");
    const auto host = trained("host", 2, "share_gpu = true\nsums = \"host\"\n");
    const auto best = trained("best", 2, "share_gpu = true\n");
    ASSERT_EQ(program({"train", on_gpu("cpu", ""), "--device", "cpu"}).exit_code, 0);
    const auto cpu = losses("cpu");
    ASSERT_EQ(alone.size(), 6u);
    ASSERT_EQ(host.size(), 6u);
    ASSERT_EQ(best.size(), 6u);
    // Another order of sums costs no more than twice what it costs to compute all of it elsewhere.
    constexpr double ulp = std::numeric_limits<float>::epsilon();
    double allowed = 0;
    for (size_t i = 0; i < alone.size(); ++i)
      allowed = std::max(allowed, 2 * std::abs(cpu[i] - alone[i]) + 4 * ulp * alone[i]);
    for (size_t i = 0; i < alone.size(); ++i) {
      EXPECT_NEAR(host[i], alone[i], allowed) << i;
      EXPECT_NEAR(best[i], alone[i], allowed) << i;
    }
    const test::Outcome refused = test::run_job(
        "", 2, {DELTASANE_PROGRAM, "train", on_gpu("both", ""), "--device", "cuda:0"});
    expect_refusal(refused, 2, "found rank 0 and rank 1 of 2 on the same");
  }
}

}  // namespace
}  // namespace deltasane::cli
