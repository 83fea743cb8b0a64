// What people type first: pipes, short flags, misspelt words, Ctrl-C, narrow terminals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/io/file.h"
#include "cli/terminal/fixture_terminal.h"
#include "cli/text/fixture_text_commands.h"
#include "support/process.h"

namespace deltasane::cli {
namespace {

TEST_F(TextCommands, ReadStandardInput) {
  const std::string ids = "49 43 50\n";
  for (const char* line : {"printf 1+2 | deltasane tokenize $m", "deltasane tokenize $m -p 1+2",
                           "printf 1+2 | deltasane tokenize -m $m -f -",
                           "printf 1+2 | deltasane tokenize $m -",
                           "printf 1+2 | deltasane tokenize -m $m -",
                           "printf 1+2 | deltasane tokenize - -m $m",
                           "printf 1+2 | deltasane tokenize $m --text -"})
    EXPECT_EQ(shown(line), ids) << line;
  const std::string scored = shown("printf '1+2=3' | deltasane score -m $m -t 1 --json");
  EXPECT_NE(scored.find("\"tokens\": 5"), scored.npos);
  const std::string file = scratch_.path() / "text";
  replace_file(file, "1+2=3");
  for (const std::string& flags : std::vector<std::string>{"--text -", "-f -", "--file -", "-",
                                                           "-f " + file})
    EXPECT_EQ(shown("printf '1+2=3' | deltasane score $m -t 1 --json " + flags), scored) << flags;
  EXPECT_EQ(shown("printf '49 43 50 61 51' | deltasane score $m -t 1 --ids - --json | head -4"),
            scored.substr(0, scored.find("  \"perplexity\"")));
  // Contexts of three tokens are texts of their own.
  const auto log_probability = [](const std::string& text) {
    return nlohmann::json::parse(text)["log_probability"].get<double>();
  };
  const std::string in_parts = shown("printf '1+2=34' | deltasane score $m -t 1 -c 3 --json");
  EXPECT_NE(in_parts.find("\"predicted\": 4"), in_parts.npos) << in_parts;
  EXPECT_DOUBLE_EQ(log_probability(in_parts),
            log_probability(shown("printf '1+2' | deltasane score $m -t 1 --json")) +
                log_probability(shown("printf '=34' | deltasane score $m -t 1 --json")));
  const std::string made = shown("deltasane generate $m -p 1+2 -n 9 -t 1 -s 5 2>/dev/null");
  for (const char* line : {"printf 1+2 | deltasane generate -m $m -n 9 -t 1 -s 5 2>/dev/null",
                           "printf 1+2 | deltasane generate $m -p - -n 9 -t 1 -s 5 2>/dev/null",
                           "printf 1+2 | deltasane generate $m -f - -n 9 -t 1 -s 5 2>/dev/null",
                           "printf 1+2 | deltasane generate $m - -n 9 -t 1 -s 5 2>/dev/null",
                           "deltasane generate $m --prompt 1+2 --tokens 9 --seed 5 2>/dev/null"})
    EXPECT_EQ(shown(line), made) << line;
  expect_misuse("deltasane generate $m < /dev/null", "or text on standard input, found none");
  expect_misuse("deltasane score $m < /dev/null", "found none");
  expect_misuse("deltasane tokenize $m < /dev/null", "found none");
  expect_misuse("printf 1 | deltasane generate $m - -p x", "and -, found two");
  expect_misuse("printf 1 | deltasane score $m - -f x", "found several");
  expect_misuse("printf 1 | deltasane tokenize $m - -f x", "found several");
  expect_misuse("deltasane score -m -", "--model: expected a model file, found '-'");
  EXPECT_NE(shown("deltasane score --help").find("-f,--file,--text"), std::string::npos);
}

TEST_F(TextCommands, TheSeedIsTold) {
  const std::string state = scratch_.path() / "state";
  const auto seed_of = [&](const std::string& flags) {
    return nlohmann::json::parse(shown("deltasane generate $m -n 2 -t 1 --json " + flags))["seed"];
  };
  EXPECT_EQ(seed_of("-p x"), 0);
  EXPECT_EQ(seed_of("-p x -s 18446744073709551615 --state-out " + state), ~uint64_t{0});
  EXPECT_EQ(seed_of("--state-in " + state), ~uint64_t{0}) << "its sampler goes on";
}

TEST_F(TextCommands, RatesAreOfTwoTokensOrMore) {
  const auto note = [&](const std::string& flags) {
    const std::string all = shown("deltasane generate $m -t 1 " + flags + " 2>&1");
    return all.substr(all.rfind('\n', all.size() - 2) + 1);
  };
  EXPECT_EQ(note("-p x -n 1"), "1 token read, 1 written\n");
  EXPECT_EQ(note("-p x -n 0"), "1 token read, 0 written\n");
  const std::string both = note("-p xy -n 2 -s 5");
  EXPECT_TRUE(both.starts_with("2 tokens read at ")) << both;
  EXPECT_NE(both.find("/s, 2 written at "), both.npos) << both;
  EXPECT_EQ(shown("deltasane generate $m -t 1 -p x -n 1 --json").find("per_s"), std::string::npos);
}

TEST_F(TextCommands, CtrlCAndSigtermKeepTheState) {
  for (const std::string signal : {"INT", "TERM"}) {
    const std::string state = scratch_.path() / signal, text = state + ".text";
    const test::Outcome outcome =
        shell("'" DELTASANE_PROGRAM "' generate '" + model_ + "' -p 1 -n 1000000000 -t 1 --state-out " +
              state + " > " + text + " & p=$!\nfor i in $(seq 100); do [ -s " + text +
              " ] && break; sleep 0.1; done\nkill -" + signal + " $p; wait $p");
    EXPECT_EQ(outcome.exit_code, 130) << outcome.output;
    EXPECT_NE(outcome.output.find("; interrupted\n"), std::string::npos) << outcome.output;
    EXPECT_EQ(shown("deltasane generate $m --state-in " + state + " -n 3 2>/dev/null").empty(),
              false);
  }
}

TEST_F(TextCommands, MisspeltWordsNameTheNearest) {
  expect_misuse("deltasane genrate x", "unknown command 'genrate'; did you mean generate? See");
  expect_misuse("deltasane gen x", "unknown command 'gen'; did you mean generate?");
  expect_misuse("deltasane foo", "unknown command 'foo'; see deltasane --help");
  expect_misuse("deltasane bench kernal",
                "'kernal'; did you mean kernel? See deltasane bench --help");
  expect_misuse("deltasane help genrate", "did you mean generate?");
  expect_misuse("deltasane generate $m --promt x",
                "unknown flag '--promt'; did you mean --prompt? See deltasane generate --help");
  expect_misuse("deltasane generate $m --qqq", "unknown flag '--qqq'; see deltasane generate");
  expect_misuse("deltasane generate $m hello",
                "unexpected argument 'hello'; use --prompt 'hello'. See deltasane generate --help");
  expect_misuse("deltasane info $m more",
                "unexpected argument 'more'; see deltasane info --help");
  EXPECT_EQ(shown("deltasane help"), shown("deltasane --help"));
  expect_misuse("deltasane", "expected a command, such as chat, found none");
  EXPECT_EQ(shown("deltasane help bench kernel"), shown("deltasane bench kernel --help"));
  EXPECT_EQ(shown("deltasane version"), shown("deltasane --version"));
  for (const char* command : {"bench", "answers"})
    EXPECT_NE(shown(std::string("deltasane help ") + command).find("Example"), std::string::npos);
}

TEST_F(TextCommands, ARequiredModelIsMarkedOnce) {
  const auto marks = [&](const std::string& command) {
    const std::string help = shown("deltasane " + command + " --help");
    size_t count = 0;
    for (size_t at = 0; (at = help.find("REQUIRED", at)) != help.npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(marks("generate"), 1u);
  EXPECT_EQ(marks("tokenize"), 1u);
  EXPECT_EQ(marks("convert"), 2u);  // IN and OUT
  EXPECT_EQ(marks("graft"), 3u);    // MODEL, OUT and --alpha
}

TEST_F(TextCommands, OneAlphaIsAdvisedForTraining) {
  EXPECT_NE(shown("deltasane graft --help").find("--alpha 5"), std::string::npos);
  for (const char* page : {"concepts", "choosing-alpha", "training"}) {
    const std::string text = read_file(std::string(DELTASANE_SOURCE "/docs/") + page + ".md");
    EXPECT_NE(text.find(" --alpha 5"), text.npos) << page;
    EXPECT_EQ(text.find("graft --alpha 3"), text.npos) << page;
    EXPECT_EQ(text.find("sane_alpha = 3"), text.npos) << page;
  }
}

TEST_F(TextCommands, AnswersAreCheckedInPairs) {
  expect_misuse("deltasane answers check", "expected --gold and --pred, or --batch, found none");
  expect_misuse("deltasane answers check --gold 1", "found --gold alone");
  expect_misuse("deltasane answers check --pred 1", "found --pred alone");
  EXPECT_TRUE(shown("deltasane answers check --gold 1 --pred ''").starts_with("different\n"));
}

TEST_F(TextCommands, OneByteIsNotSeveral) {
  EXPECT_NE(shown("printf 12 | deltasane score $m -t 1").find(" (1 byte)\n"), std::string::npos);
}

TEST_F(TextCommands, AnEmptyPromptIsCalledSo) {
  for (const char* line : {"deltasane generate $m -p ''", "deltasane generate $m -f - < /dev/null",
                           "printf '' | deltasane generate $m", "printf '' | deltasane generate $m -"})
    expect_misuse(line, "or text on standard input, found an empty prompt");
}

TEST_F(TextCommands, RangesAreToldInTheirOwnTerms) {
  expect_misuse("deltasane generate $m -p x -n -1",
                "--tokens: expected a whole number, 0 or more and below 2^63, found -1");
  expect_misuse("deltasane generate $m -p x -n 4k",
                "--tokens: expected a whole number, 0 or more and below 2^63, found 4k");
  for (const char* seed : {"-1", "1.5", "18446744073709551616"})
    for (const char* command : {"generate $m -p x -s ", "chat $m -s "})
      expect_misuse(std::string("deltasane ") + command + seed,
                    std::string("--seed: expected a whole number, 0 or more and below 2^64, found ") +
                        seed);
  expect_misuse("deltasane corpus math-chat: --bytes -5", "a whole number, 1 or more and below");
  expect_misuse("deltasane corpus math-chat: --skip -5", "a whole number, 0 or more and below");
  expect_misuse("deltasane chat $m -n 0", "--tokens: expected 1 or more, found 0");
  expect_misuse("deltasane serve $m --threads 1 --wait -1", "unknown flag '--wait'");
  expect_misuse("deltasane generate $m -p x -n 99999999999999999999", "below 2^63, found 9999");
  expect_misuse("deltasane generate $m -p x --top-k x", "--top-k: expected a number, found 'x'");
  expect_misuse("deltasane generate $m -p", "--prompt: expected a value, found none");
  expect_misuse("deltasane generate -m $m -m $m", "--model: expected it once, found it 2 times");
  expect_misuse("deltasane generate", "expected MODEL, found none; see deltasane generate --help");
  expect_misuse("deltasane answers", "expected a command, such as check, found none");
  expect_misuse("deltasane generate $m -p x --sane-alpha 0",
                "--sane-alpha: 0 is not a strength; use --no-sane to switch SANE off");
  expect_misuse("deltasane generate $m -p x --sane-alpha -1.45",
                "expected a number above -1.44 other than 0 (tau = alpha ln 2 + 1 must be "
                "positive), found -1.45");
  EXPECT_NE(shown("deltasane generate --help").find("so alpha above -1.44"), std::string::npos);
  EXPECT_NE(shown("deltasane --help").find("measured memory bandwidth and arithmetic peak of this"),
            std::string::npos);
}

// One list of names, in any case, for what is computed with and what is written.
TEST_F(TextCommands, TypesHaveTheSameNamesInAllCommands) {
  const auto written = [&](const std::string& type) {
    return shown("deltasane generate $m -p 1+2 -n 9 -t 1 -s 5 --weights " + type + " 2>/dev/null");
  };
  EXPECT_EQ(written("q8_0"), written("q8"));
  EXPECT_EQ(written("Q8"), written("q8"));
  EXPECT_EQ(written("q4_0"), written("q4"));
  EXPECT_EQ(written("FP32"), written("f32"));
  expect_misuse("deltasane generate $m -p x --weights Q4_K_M",
                "found the mixture 'Q4_K_M'; files have mixtures, as convert writes them. All "
                "matrices alike: q4_k");
  expect_misuse("deltasane generate $m -p x --weights q9", "--weights: expected file, f32, f16, bf16, q8,");
  const std::string to = scratch_.path() / "to.gguf";
  for (const auto& [given, type] : {std::pair{"Q8_0", "q8_0"}, {"Q4_K_M", "q4_k_m"}, {"fp16", "f16"}})
    EXPECT_NE(shown(std::string("deltasane convert $m --tokenizer byte --type ") + given + " " + to)
                  .find(std::string(": written, ") + type),
              std::string::npos) << given;
}

TEST_F(TextCommands, WordsOfFlagsAreCheckedAlways) {
  for (const char* command : {"generate $m -p x", "generate $m -p x --chat", "chat $m"}) {
    const std::string line = std::string("deltasane ") + command;
    expect_misuse(line + " --mode foo", "--mode: expected plain, think or fast-think, found 'foo'");
    expect_misuse(line + " --template foo",
                  "--template: expected world, chatml or chatml-think, found 'foo'");
  }
  expect_misuse("deltasane table x --format foo",
                "--format: expected markdown, csv, latex or json, found 'foo'");
}

TEST_F(TextCommands, AFullDeviceIsAnError) {
  for (const char* command : {"info $m", "--help", "version", "generate $m -p x -n 1 -t 1",
                              "tokenize $m -p x", "score $m --text $m -t 1", "machine", "manual",
                              "corpus math-chat: --bytes 3000000"}) {
    const test::Outcome outcome =
        shell("m='" + model_ + "'; deltasane " + command + " > /dev/full");
    EXPECT_EQ(outcome.exit_code, 1) << command << "\n" << outcome.output;
    EXPECT_NE(outcome.output.find("standard output: cannot write: No space left on device\n"),
              std::string::npos) << command << outcome.output;
  }
}

TEST_F(TextCommands, ImportanceNeedsTwoTokens) {
  const test::Outcome outcome = shell("printf 1 | deltasane score '" + model_ +
                                      "' -t 1 --importance " + scratch_.path().string() + "/i");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("expected a text of 2 tokens or more, found 1\n"),
            std::string::npos) << outcome.output;
  expect_misuse("printf 123 | deltasane score $m -t 1 -c 1 --importance i", "--context of 2 tokens");
}

// Commands that are given a path where nothing can be written.
TEST_F(TextCommands, ImpossiblePathsAreErrorsInOneLine) {
  const std::string config = scratch_.path() / "train.toml";
  replace_file(config,
               "[model]\nlayers = 1\nchannels = 32\nhead_size = 32\n[corpus]\nsource = "
               "\"math-chat\"\ntokenizer = \"byte\"\n[optimizer]\nkind = \"adamw\"\nsteps = "
               "1\nsequences = 1\ncontext = 16\nrate = 0.1\n[run]\nfolder = \"/proc/none/run\"\n");
  const std::string stream = scratch_.path() / "stream";
  shown("deltasane stream $m -t 1 --corpus math-chat --tokens 512 --segment 256 --out " + stream);
  const std::vector<std::string> commands{
      "train " + config,
      "demo --out /proc/none/demo",
      "sweep --model $m --alphas 0,1 --corpus math-chat --tokens 512 --out /proc/none/sweep",
      "report " + stream + " --out /proc/none/report.html",
      "records /proc/none",
      "stream $m --corpus math-chat --tokens 512 --out /proc/none/stream"};
  for (const std::string& command : commands) {
    const test::Outcome outcome = shell("m='" + model_ + "'; deltasane " + command + " 2>&1 >&-");
    EXPECT_TRUE(outcome.exit_code == 1 || outcome.exit_code == 2) << command << outcome.output;
    EXPECT_NE(outcome.output.find("deltasane: "), std::string::npos) << command << outcome.output;
    EXPECT_EQ(outcome.output.find("terminate called"), std::string::npos) << outcome.output;
    EXPECT_EQ(outcome.output.find("filesystem error"), std::string::npos) << outcome.output;
  }
}

TEST_F(TextCommands, AFolderThatCannotBeSaysSo) {
  const std::string file = scratch_.path() / "file";
  replace_file(file, "");
  for (const std::string command :
       {"demo --out ", "table " DELTASANE_SOURCE "/test/data/paper/main_table.csv --out "}) {
    const test::Outcome outcome = shell("deltasane " + command + file + "/out");
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_NE(outcome.output.find("deltasane: " + file +
                                  "/out: cannot create the folder: Not a directory\n"),
              std::string::npos) << outcome.output;
  }
}

TEST_F(TextCommands, ADivergedTrainingSaysWhere) {
  const std::string config = scratch_.path() / "train.toml";
  replace_file(
      config,
      "[model]\nlayers = 1\nchannels = 32\nhead_size = 32\nsane_alpha = 3\n[corpus]\nsource "
      "= \"math-chat\"\ntokenizer = \"byte\"\n[optimizer]\nkind = \"adamw\"\nsteps = "
      "60\nsequences = 1\ncontext = 32\nrate = 1e30\n[run]\nthreads = 1\nfolder = \"" +
          (scratch_.path() / "run").string() + "\"\n");
  const test::Outcome outcome = shell("deltasane train " + config);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  for (const char* part : {"step ", "corpus piece ", "the rate was 1e+30", "the loss before "})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << "\n" << outcome.output;
}

class StreamOnTerminal : public TextCommands, public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Columns, StreamOnTerminal, testing::Values(80, 40));

TEST_P(StreamOnTerminal, ProgressFitsAndAnInterruptKeepsWhatWasRead) {
  const std::string out = scratch_.path() / "run";
  const std::vector<std::string> words{DELTASANE_PROGRAM,
                                       "stream",
                                       model_,
                                       "-t",
                                       "1",
                                       "--corpus",
                                       "math-chat",
                                       "--tokens",
                                       "999936",
                                       "--out",
                                       out,
                                       "--segment",
                                       "256",
                                       "--probe-every",
                                       "512",
                                       "--probe-problems",
                                       "2",
                                       "--probe-tokens",
                                       "2"};
  test::TerminalProcess run(words, GetParam());
  run.wait_for(" %  loss ");
  run.wait_for(" %  loss ");
  run.type("\x03");
  EXPECT_EQ(run.wait_for_end(), 130) << run.output();
  for (const std::string& row : test::rows_shown(run.output(), 1000))
    if (row.find(" %  loss ") != row.npos) {
      const std::string_view own = std::string_view(row).substr(0, row.find("^C"));  // the terminal's echo
      EXPECT_LT(int(own.size()), GetParam()) << row;
    }
  EXPECT_NE(run.output().find("; continue with --resume"), std::string::npos) << run.output();
  EXPECT_NE(run.output().find("answers              "), std::string::npos) << run.output();
  // The last position that was read is where it resumes.
  const size_t at = run.output().find("interrupted          at position ") + 33;
  const std::string position = run.output().substr(at, run.output().find(';', at) - at);
  std::vector<std::string> on{"timeout", "--preserve-status", "-s", "INT", "1"};
  on.insert(on.end(), words.begin(), words.end());
  on.push_back("--resume");
  const test::Outcome again = test::run(on);
  EXPECT_EQ(again.exit_code, 130) << again.output;
  EXPECT_NE(again.output.find("resumes at position " + position + " of 999936"), std::string::npos)
      << position << "\n"
      << again.output;
}

TEST_F(TextCommands, TheListOfKeysIsTheProgramsOwn) {
  const std::string page = read_file(DELTASANE_SOURCE "/docs/training-keys.md");
  const std::string keys = shown("deltasane train --keys");
  EXPECT_NE(page.find(keys), page.npos) << "make it again: deltasane train --keys\n" << keys;
  EXPECT_NE(keys.find("| `optimizer.rate` | number |"), keys.npos);
}

TEST_F(TextCommands, DiagnoseSuggestsWhereSomethingIsWrong) {
  const std::string out = scratch_.path() / "run";
  shown("deltasane stream $m -t 1 --corpus math-chat --tokens 512 --segment 256 --out " + out);
  EXPECT_EQ(shown("deltasane diagnose " + out).find("suggested"), std::string::npos);
  const std::string broken = scratch_.path() / "broken";
  const std::string baseline = DELTASANE_SOURCE "/models/arithmetic-baseline.safetensors";
  shown("deltasane stream " + baseline +
        " -t 1 --corpus math-chat --tokens 1024 --segment 512 --out " + broken);
  const std::string found = shown("deltasane diagnose " + broken);
  const size_t at = found.find("suggested            --sane-alpha ");
  ASSERT_NE(at, found.npos) << found;
  const std::string flag = found.substr(at + 21, found.find(':', at) - at - 21);
  EXPECT_NE(shown("deltasane diagnose --json " + broken).find("\"suggested\""), std::string::npos);
  const std::string first = shown("deltasane diagnose --most 1 " + broken);
  const size_t count = first.find("list them with --most ");  // as many as are anomalous
  ASSERT_NE(count, first.npos) << first;
  const std::string all = first.substr(count + 22, first.find('\n', count) - count - 22);
  EXPECT_NE(first.find("anomalous heads      " + all + " of 24"), first.npos) << first;
  shown("deltasane generate " + baseline + " -p 1 -n 1 " + flag);
}

// Thousands of answers before the first token: the line says how far they are.
TEST_F(TextCommands, StreamSaysThatItAsks) {
  test::TerminalProcess run({DELTASANE_PROGRAM, "stream", model_, "-t", "1", "--corpus", "math-chat",
                             "--tokens", "4096", "--out", scratch_.path() / "run", "--probe-at", "0",
                             "--probe-problems", "4000", "--probe-tokens", "8"},
                            80);
  run.wait_for("  0.0 %  asking ");
  EXPECT_NE(run.wait_for(" of 4000").find_first_of("123456789"), std::string::npos) << run.output();
  run.wait_for("  0.0 %  asking ");  // it goes on
}

// Read inside a chunk, before SANE acts: hot, and healthy.
TEST_F(TextCommands, DiagnoseAdvisesNothingFromOneStateWithSane) {
  const auto state_of = [&](const std::string& name, const std::string& prompt) {
    const std::string path = scratch_.path() / "sum.state";
    shown("printf '" + prompt + "' | deltasane generate " DELTASANE_SOURCE "/models/" + name +
          " -t 1 -n 0 --state-out " + path);
    return path;
  };
  const std::string sane = "arithmetic-sane-3.safetensors";
  const std::string inside = state_of(sane, "User: 37+45=?\n\n");
  const std::string found = shown("deltasane diagnose " + inside);
  EXPECT_EQ(found.find("anomalous heads      0 of"), found.npos) << found;  // as measured
  EXPECT_NE(found.find("inside a chunk       15 tokens since SANE acted"), found.npos) << found;
  EXPECT_NE(found.find("advice               none from one record"), found.npos) << found;
  EXPECT_EQ(found.find("suggested"), found.npos) << found;
  const std::string json = shown("deltasane diagnose --json " + inside);
  EXPECT_NE(json.find("\"tokens_into_chunk\": 15"), json.npos) << json;
  EXPECT_EQ(json.find("\"suggested\""), json.npos) << json;
  const std::string end = shown("deltasane diagnose " + state_of(sane, "User: 37+45=?\n\nA"));
  EXPECT_NE(end.find("anomalous heads      0 of 24"), end.npos) << end;
  EXPECT_EQ(end.find("inside a chunk"), end.npos) << end;
  // Without SANE one state is enough.
  const std::string base =
      shown("deltasane diagnose " + state_of("arithmetic-baseline.safetensors", "User: 37+45=?\n\n"));
  EXPECT_NE(base.find("suggested            --sane-alpha "), base.npos) << base;
}

TEST_F(TextCommands, TrainingLeavesAPage) {
  const std::string folder = scratch_.path() / "run";
  shown("deltasane train " DELTASANE_SOURCE
        "/examples/one_minute.toml --set optimizer.steps=2 --set "
        "optimizer.sequences=1 --set evaluation.problems=2 --set evaluation.batches=1 --set "
        "run.folder=" +
        folder);
  const std::string page = read_file(folder + "/report.html");
  for (const char* part : {"Answers", "Loss", "Gradient norm", "Learning rate", "held-out loss"})
    EXPECT_NE(page.find(part), page.npos) << part;
}

}  // namespace
}  // namespace deltasane::cli
