// The program with one more architecture in its list, as a user runs it: no command knows.
#include <gtest/gtest.h>

#include <cmath>
#include <iomanip>
#include <sstream>

#include "base/io/file.h"
#include "kernel/sampler/sampler_state.h"
#include "text/byte_tokenizer.h"
#include "toy/fixture_commands.h"

namespace deltasane::toy {
namespace {

TEST_F(ToyCommands, Info) {
  expect(0, "deltasane info toy.safetensors --tensors", "Toy, safetensors");
  for (const char* part : {"memories       2 of 6x4, 3 of 5x3, 1 of 2x7", "and 40 bytes a token: 4.0 MB after 100000",
                           "alpha 0.5, chunks of 10", "layers.2.memory.1.tau"})
    EXPECT_NE(output.find(part), std::string::npos) << part << "\n" << output;
  const auto found = json("info toy.safetensors");
  EXPECT_EQ(found["architecture"], "toy");
  EXPECT_EQ(found["state_bytes"], 4 * (16 + 107));
  EXPECT_EQ(found["cache_bytes_per_token"], 40);
  EXPECT_EQ(found["memories"]["2.1"], 14);
  EXPECT_EQ(found["identity"], (std::ostringstream() << std::hex << std::setw(16)
                                << std::setfill('0') << toy.model->identity()).str());
}

TEST_F(ToyCommands, ConvertToWhatTheArchitectureHas) {
  expect(0, "deltasane convert toy.safetensors half.safetensors --type f16", "written, f16");
  const auto found = json("info half.safetensors");
  EXPECT_EQ(found["architecture"], "toy");
  EXPECT_EQ(found["sane"]["chunk"], 10);
  expect(0, "deltasane generate half.safetensors --prompt abc --tokens 5");
  expect(2, "deltasane convert toy.safetensors toy.gguf --tokenizer byte",
         "expected .safetensors for Toy");
  expect(2, "deltasane bench weights 0.1B out.safetensors --architecture toy",
         "expected one with random models, found toy");
  expect(2, "deltasane generate toy.safetensors --prompt a --weights q8", "expected f32 on a CPU");
}

// Before anything is read, not when memory ends.
TEST_F(ToyCommands, CachesThatWillNotFitAreForeseen) {
  expect(2, "deltasane stream toy.safetensors --corpus math-chat:seed=1 --tokens 1000000000000 "
            "--out run", "for the attention caches of 1 x 1000000000000 tokens");
  EXPECT_NE(output.find("40000.0 GB"), std::string::npos) << output;
  EXPECT_NE(output.find("--attention-window N"), std::string::npos) << output;
  EXPECT_FALSE(fs::exists(file("run")));
  expect(2, "deltasane generate toy.safetensors --prompt a --tokens 1000000000000",
         "for the attention caches of 1 x 1000000000001 tokens");
}

TEST_F(ToyCommands, GenerateGoesOnAsIfItHadNeverStopped) {
  const std::string flags = " --seed 5 --presence-penalty 0.3 ";
  expect(0, "deltasane generate toy.safetensors --prompt 'one two three' --tokens 90" + flags +
                "--state-out whole");
  expect(0, "deltasane generate toy.safetensors --prompt 'one two three' --tokens 37" + flags +
                "--state-out part");
  expect(0, "deltasane generate toy.safetensors --state-in part --tokens 53" + flags +
                "--state-out rest");
  const SavedState whole = state("whole"), rest = state("rest");
  EXPECT_EQ(whole.state.position, 13 + 89);
  EXPECT_EQ(whole.state.cache(0).size(), 10u * (13 + 89));
  EXPECT_TRUE(same_bits(whole.state, rest.state));
  EXPECT_EQ(whole.stamp.last_token, rest.stamp.last_token);
  EXPECT_EQ(whole.stamp.sampler, rest.stamp.sampler);
  EXPECT_EQ(whole.stamp.sane, (SaneUse{SaneKind::trained, 0.5, 10}));

  expect(1, "deltasane generate toy.safetensors --no-sane --state-in part", "accept another SANE with --accept-other-sane");
  write_toy(file("other.safetensors"), {.seed = 2});
  expect(1, "deltasane generate other.safetensors --state-in part", "the model that made it");
  expect(1, "deltasane generate '" DELTASANE_SOURCE
            "/models/arithmetic-baseline.safetensors' --state-in part", "the model that made it");
}

TEST_F(ToyCommands, ScoreIsTheModelsOwn) {
  const std::string text = "It was the best of times, it was the worst of times.";
  replace_file(file("text"), text);
  std::vector<double> losses(text.size() - 1);
  SequenceState alone = toy.model->fresh_state();
  const std::vector<int32_t> ids = ByteTokenizer().encode(text);
  const double loss = score(*toy.model, std::span(ids).first(losses.size()),
                            std::span(ids).subspan(1), alone, losses, toy.cpu);
  const auto found = json("score toy.safetensors --text text --per-token");
  EXPECT_EQ(found["predicted"], losses.size());
  EXPECT_DOUBLE_EQ(found["log_probability"], -loss);
  EXPECT_DOUBLE_EQ(found["perplexity_per_byte"], std::exp(loss / double(losses.size())));
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_EQ(found["log_probabilities"][i].get<double>(), -losses[i]);
  const auto by_logits = json("score toy.safetensors --text text --logits logits.npy");
  EXPECT_EQ(by_logits["log_probability"], found["log_probability"]);
}

TEST_F(ToyCommands, ChatRemembersWhatWasSaved) {
  const auto chat = [&](const std::string& lines) {
    expect(0, "printf '" + lines +
                  "' | deltasane chat toy.safetensors --tokens 30 --temperature 0 2>&1");
    return output;
  };
  const std::string whole = chat("hello\\n/save kept\\nand more\\n/save end\\n");
  const std::string rest = chat("/load kept\\nand more\\n/state\\n/save again\\n");
  EXPECT_TRUE(same_bits(state("end").state, state("again").state));
  EXPECT_NE(rest.find("tokens remembered)"), std::string::npos) << rest;
  EXPECT_NE(rest.find("trained SANE with alpha 0.5, chunk 10"), std::string::npos) << rest;
  chat("/reset\\n/load kept\\n/save same\\n");
  EXPECT_TRUE(same_bits(state("kept").state, state("same").state));
}

TEST_F(ToyCommands, StreamKilledAndResumedThenDiagnosedAndExported) {
  const std::string stream =
      "'" DELTASANE_PROGRAM "' stream toy.safetensors --corpus math-chat:seed=1 --tokens 2048 "
      "--segment 128 "
      "--snapshots 512,2048 --probe-at 0,1000 --probe-problems 2 --probe-tokens 20 "
      "--checkpoint-every 256 ";
  expect(0, stream + "--out whole");
  expect(0, stream + "--out parts & sleep 0.2; kill -9 $!; wait $!; true");
  expect(0, stream + "--out parts --resume");
  for (const char* name : {"segments.rec", "heads.rec", "probes.rec",
                           "snapshots/stream-0-position-2048.state"})
    EXPECT_EQ(read_file(file(cat("whole/", name))), read_file(file(cat("parts/", name)))) << name;
  expect(2, "deltasane stream toy.safetensors --corpus math-chat:seed=1 --tokens 99 --segment 48 "
            "--out odd", "a positive multiple of 32");

  const auto found = json("diagnose whole");
  EXPECT_EQ(found["position"], 2048);
  EXPECT_EQ(found["heads"].size(), 6u);
  const auto of_state = json("diagnose whole/snapshots/stream-0-position-2048.state");
  for (const auto& head : found["heads"])
    for (const auto& other : of_state["heads"])
      if (head["layer"] == other["layer"] && head["head"] == other["head"]) {
        EXPECT_EQ(head["norm"], other["norm"]);
        EXPECT_EQ(head["q9999"], other["q9999"]);
      }
  for (const char* share : {"share_above_10", "share_above_100"})
    EXPECT_EQ(found["background"][share], of_state["background"][share]);
  expect(0, "deltasane diagnose whole", "anomalous heads");
  expect(0, "deltasane records whole --csv tables", "memories");
  const std::string heads = read_file(file("tables/heads.csv"));
  EXPECT_EQ(std::ranges::count(heads, '\n'), 1 + 16 * 6);
}

TEST_F(ToyCommands, ReportDrawsStatesOfAnyShape) {
  Plan plan;
  plan.sizes.layers = {{.taps = 2}, {.cache = 3}};  // no memory
  write_toy(file("cache.safetensors"), plan);
  for (const char* model : {"toy", "cache"})
    expect(0, cat("deltasane stream ", model, ".safetensors --corpus math-chat:seed=1 --tokens 512 ",
                  "--segment 128 --snapshots 256,512 --out ", model));
  if (run("gnuplot --version") != 0) {
    expect(0, "deltasane report toy cache --out r.html", "gnuplot is not installed: no heat maps");
    EXPECT_FALSE(fs::exists(file("r-figures")));
    return;
  }
  expect(0, "deltasane report toy cache --out r.html", "r-figures");
  expect(0, "deltasane report cache --out c.html", "c-figures");
  const auto figures = [&](const char* name) {
    const std::string page = read_file(file(name));
    int count = 0;
    for (size_t at = page.find("<figure"); at != page.npos; at = page.find("<figure", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(figures("r.html"), 7);
  EXPECT_EQ(figures("c.html"), 2);
  const std::string page = read_file(file("r.html"));
  EXPECT_NE(page.find("|S| of all layers and heads: toy"), std::string::npos);
  EXPECT_EQ(page.find("|S| of all layers and heads: cache"), std::string::npos);
  EXPECT_TRUE(fs::exists(file("r-figures/state_maps_1.png")));
  EXPECT_FALSE(fs::exists(file("r-figures/layer_norms_2.png")));
  expect(0, "deltasane diagnose cache", "0 of 0");
}

TEST_F(ToyCommands, EvalOnASuiteOfOnesOwn) {
  replace_file(file("suite.toml"),
               "[[benchmark]]\nname = \"sums\"\n"
               "[[benchmark.problem]]\nquestion = \"1+1\"\ngold = \"2\"\n"
               "[[benchmark.problem]]\nquestion = \"10-3\"\ngold = \"7\"\n"
               "[[benchmark.problem]]\nquestion = \"What is twice 4?\"\ngold = \"8\"\n");
  const std::string eval =
      "deltasane eval toy.safetensors --suite suite.toml --samples 3 --tokens 25 --seed 4 ";
  expect(0, eval + "--out one --batch 1", "sums");
  expect(0, eval + "--out many --batch 7 --threads 2", "sums");
  const auto sorted = [&](const std::string& folder) {
    expect(0, "sort " + folder + "/samples.jsonl");
    return output;
  };
  const std::string samples = sorted("one");
  EXPECT_EQ(std::ranges::count(samples, '\n'), 9);
  EXPECT_EQ(sorted("many"), samples);
  EXPECT_EQ(read_file(file("one/scores.json")), read_file(file("many/scores.json")));
  const std::string prefix = "--prefix-corpus math-chat:seed=2 --prefix-tokens 500 ";
  expect(0, eval + prefix + "--out after", "sums");
  EXPECT_NE(sorted("after"), samples);
  expect(0, "cp after/prefix-*.state kept.state && " + eval +
                "--prefix-state kept.state --out from", "sums");
  EXPECT_EQ(sorted("from"), sorted("after"));
}

}  // namespace
}  // namespace deltasane::toy
