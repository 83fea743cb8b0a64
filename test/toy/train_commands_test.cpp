// Training commands with one more architecture in the list: no command knows.
#include <sstream>

#include "base/io/file.h"
#include "toy/fixture_commands.h"

namespace deltasane::toy {
namespace {

struct ToyTrainCommands : ToyCommands {
  // The name of a configuration file, and of the run's folder without its ending.
  std::string config(const std::string& name, const std::string& model, int steps) const {
    replace_file(file(name + ".toml"),
                 cat("[model]\n", model,
                     "[corpus]\nsource = \"math-chat:level=1\"\n"
                     "[optimizer]\nkind = \"muon\"\nsteps = ",
                     steps,
                     "\nsequences = 4\ncontext = 32\nrate = 0.01\nwarmup = 2\n"
                     "[evaluation]\nevery = 20\nsource = \"math-chat:seed=2,level=1\"\n"
                     "answers = \"math-chat:seed=3,level=1\"\nproblems = 2\nlongest_answer = 4\n"
                     "[run]\nthreads = 2\nsave_every = 10\nfolder = \"",
                     name, "\"\n"));
    return name + ".toml";
  }
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> all;
    std::istringstream lines(read_file(file(run + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);)
      if (const auto row = nlohmann::json::parse(line); row.contains("loss"))
        all.push_back(row["loss"]);
    return all;
  }
  std::string model_of(const std::string& run, const char* step) const {
    return read_file(file(cat(run, "/step_000000", step, "/model.safetensors")));
  }
};

constexpr const char* from_scratch =
    "architecture = \"toy\"\nlayers = 3\nchannels = 12\nhead_size = 6\nsane_alpha = 0.5\n"
    "sane_chunk = 10\n";

TEST_F(ToyTrainCommands, TrainedKilledAndResumed) {
  expect(0, "deltasane train " + config("whole", from_scratch, 60), "3 layers of 12 channels");
  const std::vector<double> all = losses("whole");
  ASSERT_EQ(all.size(), 60u);
  EXPECT_NEAR(all[0], std::log(256), 0.7);
  EXPECT_LT(all[59], 0.8 * all[0]);

  const std::string parts = config("parts", from_scratch, 60);
  expect(0, "'" DELTASANE_PROGRAM "' train " + parts +
                " & while ! test -e parts/step_00000010; do sleep 0.01; done; kill -9 $!; "
                "wait $!; true");
  EXPECT_FALSE(fs::exists(file("parts/step_00000060"))) << "it ended before it was killed";
  expect(0, "deltasane train --resume " + parts, "resumed from parts/step_");
  EXPECT_EQ(losses("parts"), all);
  EXPECT_EQ(model_of("parts", "60"), model_of("whole", "60"));

  const auto found = json("info whole/step_00000060/model.safetensors");
  EXPECT_EQ(found["architecture"], "toy");
  EXPECT_EQ(found["sane"]["alpha"], 0.5);
  EXPECT_EQ(found["sane"]["chunk"], 10);
  expect(0, "deltasane generate whole/step_00000060/model.safetensors --prompt 1+1= --tokens 5");
}

// The architecture is that of the file; SANE can be added to one that has none.
TEST_F(ToyTrainCommands, GoesOnWithAModelFile) {
  write_toy(file("base.safetensors"), {.seed = 2});
  const std::string from = "from = \"base.safetensors\"\n";
  expect(0, "deltasane train " + config("tuned", from + "sane_alpha = 2\n", 10), "alpha 2");
  EXPECT_EQ(json("info tuned/step_00000010/model.safetensors")["memories"]["2.1"], 14);
  expect(2, "deltasane train " + config("other", from + "architecture = \"nothing\"\n", 10),
         "expected toy, which");
  expect(2, "deltasane train " + config("other", "from = \"toy.safetensors\"\nsane_alpha = 2\n", 10),
         "was trained with alpha 0.5 and chunk 10");
  expect(2, "deltasane train " + config("whole", from_scratch, 4) + " --device cuda", "device");

  expect(0, "deltasane graft base.safetensors held.safetensors --alpha 0.3",
         "SANE with alpha 0.3, chunk 16, 48 parameters added");
  replace_file(file("text"), std::string(50, 'x') + "1+1=2 and so on, past some chunks of 16");
  expect(0, "deltasane score held.safetensors --text text --logits a.npy");
  expect(0, "deltasane score base.safetensors --sane-alpha 0.3 --text text --logits b.npy");
  EXPECT_EQ(read_file(file("a.npy")), read_file(file("b.npy")));
}

}  // namespace
}  // namespace deltasane::toy
