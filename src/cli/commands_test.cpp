// The program as a person meets it: what it says and how it ends, with wrong input above all.
#include <gtest/gtest.h>

#include <sstream>

#include "base/io/file.h"
#include "format/safetensors/safetensors.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

test::Outcome deltasane(std::vector<std::string> words) {
  words.insert(words.begin(), DELTASANE_PROGRAM);
  return test::run(words);
}

// What was written, without the last line, which says how fast.
std::string without_speed(const std::string& output) {
  return output.substr(0, output.rfind('\n', output.size() - 2));
}

class Commands : public testing::Test {
 protected:
  Commands() {
    write_rwkv7_safetensors(model_, RandomRwkv7(shape_, 1), StoredType::f16, {});
    write_rwkv7_safetensors(other_, RandomRwkv7(shape_, 2), StoredType::f16, {});
    replace_file(prompt_, "12+34=");
  }

  // Refused in one line that names the thing, with nothing written.
  static void expect_refused(const test::Outcome& outcome, int code, std::string_view what) {
    EXPECT_EQ(outcome.exit_code, code) << outcome.output;
    EXPECT_NE(outcome.output.find(what), std::string::npos) << outcome.output;
    EXPECT_EQ(std::ranges::count(outcome.output, '\n'), 1) << outcome.output;
  }
  size_t files() const {
    return size_t(std::distance(fs::directory_iterator(scratch_.path()), {}));
  }

  test::Scratch scratch_;
  Rwkv7Shape shape_{2, 32, 2, 16, 128, 256, 8, 8, 8, 8};
  std::string model_ = scratch_.path() / "model.safetensors";
  std::string other_ = scratch_.path() / "other.safetensors";
  std::string prompt_ = scratch_.path() / "prompt.txt";
};

TEST_F(Commands, GenerateTheSameForTheSameSeed) {
  const std::vector<std::string> words = {"generate", model_, "--prompt-file", prompt_,
                                          "--tokens", "40",   "--seed",        "5"};
  const test::Outcome first = deltasane(words);
  EXPECT_EQ(first.exit_code, 0) << first.output;
  EXPECT_EQ(without_speed(deltasane(words).output), without_speed(first.output));
}

TEST_F(Commands, BenchWeightsRefusesMoreSlowHeadsThanThereAre) {
  const size_t before = files();
  expect_refused(
      deltasane({"bench", "weights", "0.1B", scratch_.path() / "out.gguf", "--slow-heads", "145"}),
      2, "slow heads: expected 0 to 144");
  EXPECT_EQ(files(), before);
}

TEST_F(Commands, AStateGoesOnInAnotherProcess) {
  const std::string state = scratch_.path() / "state";
  const auto generate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"generate", model_, "--seed", "5"};
    words.insert(words.end(), more.begin(), more.end());
    const test::Outcome outcome = deltasane(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return without_speed(outcome.output);
  };
  generate({"--prompt-file", prompt_, "--tokens", "20", "--state-out", state});
  const std::string once = generate({"--state-in", state, "--tokens", "30"});
  EXPECT_EQ(generate({"--state-in", state, "--tokens", "30"}), once);
  expect_refused(deltasane({"generate", other_, "--state-in", state, "--tokens", "3"}), 1, state);
}

TEST_F(Commands, AStateOfAnotherSaneIsTakenWhenAccepted) {
  const std::string state = scratch_.path() / "state";
  const auto run = [&](const std::string& program, const std::string& more) {
    return test::run({"sh", "-c", cat("printf '12\\n' | '" DELTASANE_PROGRAM "' ", program, " '", model_,
                                      "' -n 3 --state-in ", state, " ", more)});
  };
  ASSERT_EQ(deltasane({"generate", model_, "-p", "x", "-n", "3", "--sane-alpha", "3", "--state-out",
                       state}).exit_code, 0);
  for (const char* program : {"chat", "generate -p x"}) {
    expect_refused(run(program, ""), 1, "or accept another SANE with --accept-other-sane");
    const test::Outcome taken = run(program, "--accept-other-sane");
    EXPECT_EQ(taken.exit_code, 0) << taken.output;
  }
}

// A tuned state is a beginning: of zeros it is the empty one, and what follows can be saved.
TEST_F(Commands, ATunedStateIsABeginning) {
  const std::string saved = scratch_.path() / "saved";
  const auto tuned = [&](float value, int64_t layers) {
    const std::string path = scratch_.path() / cat("tuned", value, "-", layers, ".safetensors");
    std::vector<PlannedTensor> plan;
    for (int64_t layer = 0; layer < layers; ++layer)
      plan.push_back({cat("blocks.", layer, ".att.time_state"), StoredType::f32, {2, 16, 16}});
    write_safetensors(path, plan, {}, [&](const PlannedTensor&, const Sink& sink) {
      std::vector<float> values(2 * 16 * 16);
      for (size_t i = 0; i < values.size(); ++i) values[i] = value * float(int(i * i % 13) - 6);
      sink(std::as_bytes(std::span(values)));
    });
    return path;
  };
  const auto generate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"generate", model_, "--seed", "5", "--tokens", "30"};
    words.insert(words.end(), more.begin(), more.end());
    const test::Outcome outcome = deltasane(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return without_speed(outcome.output);
  };
  const std::string empty = generate({"--prompt-file", prompt_});
  EXPECT_EQ(generate({"--prompt-file", prompt_, "--state-in", tuned(0, 2)}), empty);
  EXPECT_NE(generate({"--prompt-file", prompt_, "--state-in", tuned(9, 2)}), empty);
  generate({"--prompt-file", prompt_, "--state-in", tuned(9, 2), "--state-out", saved});
  generate({"--state-in", saved});
  expect_refused(deltasane({"generate", model_, "--state-in", tuned(0, 2)}), 1,
                 "this state ends after its text; give a --prompt to continue");
  expect_refused(deltasane({"generate", model_, "--prompt", "x", "--state-in", tuned(0, 3)}), 1,
                 "expected a tensor for each of 2 layers");
  expect_refused(deltasane({"generate", model_, "--prompt", "x", "--state-in", model_}), 1,
                 "expected the tensor blocks.0.att.time_state");
  expect_refused(deltasane({"generate", model_, "--prompt", "x", "--state-in", prompt_}), 1,
                 prompt_);
  // A conversation begins with it: the system's text is still read.
  const auto chat = [&](const std::string& state) {
    const test::Outcome outcome = test::run(
        {"sh", "-c", cat("printf '12\\n/state\\n' | '" DELTASANE_PROGRAM "' chat '", model_,
                         "' --tokens 5 --temperature 0 --system abcdef ", state)});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return outcome.output;
  };
  EXPECT_EQ(chat(cat("--state-in '", tuned(0, 2), "'")), chat(""));
}

TEST_F(Commands, RefuseWhatIsMissing) {
  const size_t before = files();
  const std::string nothing = scratch_.path() / "nothing.gguf";
  for (const std::string command : {"info", "score", "generate", "chat"})
    expect_refused(
        deltasane(command == "score" ? std::vector<std::string>{command, nothing, "--text", prompt_}
                  : command == "generate"
                      ? std::vector<std::string>{command, nothing, "--prompt", "x"}
                      : std::vector<std::string>{command, nothing}),
        1, nothing);
  expect_refused(deltasane({"convert", nothing, scratch_.path() / "out.gguf"}), 1, nothing);
  expect_refused(deltasane({"generate", model_, "--prompt-file", nothing}), 1, nothing);
  EXPECT_EQ(deltasane({"generate", model_, "--prompt", "x", "--unknown-flag"}).exit_code, 2);
  EXPECT_EQ(deltasane({"no-such-command"}).exit_code, 2);
  EXPECT_EQ(deltasane({}).exit_code, 2);
  EXPECT_EQ(files(), before);
}

TEST_F(Commands, RefuseAPromptThatIsNotText) {
  replace_file(prompt_, "12\xFF\xFE");
  expect_refused(deltasane({"generate", model_, "--prompt-file", prompt_}), 1, "UTF-8");
}

// Every 41st byte; the readers' own tests damage every byte of every header.
TEST_F(Commands, RefuseDamagedModels) {
  const std::string whole = read_file(model_), gguf = scratch_.path() / "model.gguf";
  write_rwkv7_gguf(gguf, RandomRwkv7(shape_, 1), {StoredType::f16});
  const std::string out = scratch_.path() / "out.safetensors";
  for (const std::string& path : {model_, gguf}) {
    const std::string bytes = read_file(path);
    for (size_t size = 0; size < std::min<size_t>(bytes.size(), 4000); size += 41) {
      replace_file(path, std::string_view(bytes).substr(0, size));
      expect_refused(deltasane({"convert", path, out}), 1, path);
      std::string flipped = bytes;
      flipped[size] = char(flipped[size] ^ 0x40);
      replace_file(path, flipped);
      const test::Outcome outcome = deltasane({"info", path});
      EXPECT_TRUE(outcome.exit_code == 0 || outcome.exit_code == 1) << size << outcome.output;
      EXPECT_FALSE(fs::exists(out));
    }
  }
}

TEST_F(Commands, InfoListsMetadataWhenAsked) {
  const std::string graft = scratch_.path() / "graft.safetensors";
  ASSERT_EQ(deltasane({"graft", model_, graft, "--alpha", "3"}).exit_code, 0);
  const std::string plain = deltasane({"info", graft}).output;
  EXPECT_NE(plain.find("entries, which --metadata lists\n"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("sane.alpha: 3"), std::string::npos) << plain;
  const std::string all = deltasane({"info", graft, "--metadata"}).output;
  EXPECT_NE(all.find("sane.alpha: 3\n"), std::string::npos) << all;
}

TEST_F(Commands, ScoreTextAndTokens) {
  const std::string logits = scratch_.path() / "logits.npy", ids = scratch_.path() / "ids.txt";
  replace_file(ids, "49 50\n43 51 52 61");
  const test::Outcome text = deltasane({"score", model_, "--text", prompt_, "--json"});
  const test::Outcome tokens =
      deltasane({"score", model_, "--ids", ids, "--logits", logits, "--json"});
  EXPECT_EQ(text.exit_code, 0) << text.output;
  EXPECT_EQ(tokens.exit_code, 0) << tokens.output;
  EXPECT_EQ(fs::file_size(logits) % 64, 0u + (6 * 256 * 4) % 64);
  replace_file(ids, "49 256");
  expect_refused(deltasane({"score", model_, "--ids", ids}), 1, "256");
}

TEST_F(Commands, CompleteInEveryShell) {
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const test::Outcome outcome = deltasane({"completion", shell});
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_NE(outcome.output.find("state-out"), std::string::npos);
  }
  const test::Outcome words =
      test::run({"bash", "-c",
                 "source <(" DELTASANE_PROGRAM
                 " completion bash); COMP_WORDS=(deltasane bench ke); COMP_CWORD=2; _deltasane; "
                 "echo ${COMPREPLY[@]}; COMP_WORDS=(deltasane generate m --state); COMP_CWORD=3; "
                 "_deltasane; echo ${COMPREPLY[@]}"});
  EXPECT_EQ(words.output, "kernel\n--state-in --state-out\n");
  expect_refused(deltasane({"completion", "tcsh"}), 2, "tcsh");
  EXPECT_TRUE(deltasane({"completion", "zsh"}).output.starts_with("#compdef deltasane\n"));
}

TEST_F(Commands, AreAllInTheManualPage) {
  const test::Outcome page = deltasane({"manual"});
  EXPECT_EQ(page.exit_code, 0);
  const std::string help = deltasane({"--help"}).output;
  EXPECT_EQ(help.find("manual"), std::string::npos) << "it is for the build";
  std::istringstream commands(help.substr(help.find("Subcommands:")));
  std::string line, name;
  size_t count = 0;
  for (std::getline(commands, line); std::getline(commands, line); ++count) {
    std::istringstream(line) >> name;
    EXPECT_NE(page.output.find(cat(".SS deltasane ", name)), std::string::npos) << name;
  }
  EXPECT_GT(count, 15u);
  for (const char* text : {".TH DELTASANE 1", "\n.SS deltasane bench kernel\n", "\\-\\-state\\-out",
                           "deltasane generate model.gguf", "\n.SH EXIT STATUS\n"})
    EXPECT_NE(page.output.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace deltasane::cli
