// The commands eval and compare as users call them: exit codes, messages and files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/io/file.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/random.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

struct EvalCommand : testing::Test {
  test::Scratch scratch;
  std::string output;

  EvalCommand() {
    write_rwkv7_safetensors(scratch.path() / "bytes.safetensors",
                            RandomRwkv7(test::small_rwkv7(256), 1), StoredType::f32, {});
    write_rwkv7_safetensors(scratch.path() / "unnamed.safetensors",
                            RandomRwkv7(test::small_rwkv7(300), 1), StoredType::f32, {});
    fs::create_directories(scratch.path() / "problems/svamp");
    replace_file(scratch.path() / "problems/svamp/test.jsonl",
                 "{\"Body\": \"Two cats\", \"Question\": \"How many?\", \"Answer\": 2.0}\n"
                 "broken\n");
  }

  // The exit code; words run in the scratch folder.
  int run(const std::string& words, const std::string& environment = "") {
    const test::Outcome outcome =
        test::run({"sh", "-c",
                   cat("cd '", scratch.path().string(), "' && env -u OMPI_COMM_WORLD_RANK ",
                       environment, " '", DELTASANE_PROGRAM, "' ", words)});
    output = outcome.output;
    return outcome.exit_code;
  }
  void expect(int code, const std::string& words, const char* part) {
    EXPECT_EQ(run(words), code) << words << "\n" << output;
    EXPECT_NE(output.find(part), std::string::npos) << words << "\n" << output;
  }
};

const std::string brief = "--samples 2 --tokens 8 --threads 1 ";

TEST_F(EvalCommand, BadInputIsNamed) {
  const std::string model = "eval bytes.safetensors " + brief;
  expect(2, "eval", "expected MODEL");
  expect(2, model + "--out o", "expected --suite");
  expect(2, model + "--suite svamp --data problems", "expected --out");
  expect(2, model + "--suite svanp --data problems --out o", "did you mean svamp?");
  expect(1, model + "--suite svamp --data nowhere --out o",
         "data folder nowhere: expected a folder");
  expect(2, model + "--suite svamp --out o",
         "expected a data folder with svamp/test.jsonl in it, found none");
  expect(2, model + "--suite svamp --data problems --out o --shard 3/2", "shard: expected I/N");
  expect(2, model + "--suite svamp --data problems --out o --prefix-tokens 5", "no corpus");
  expect(2, model + "--suite svamp --data problems --out o --mode loud", "expected plain, think");
  expect(1, "eval unnamed.safetensors --suite svamp --data problems --out o",
         "give one with --tokenizer");
  expect(1, "eval nowhere.pth --suite svamp --data problems --out o", "nowhere.pth");
  expect(1, "compare nowhere", "expected the folder of a run");
  expect(2, "compare", "RUN");
  EXPECT_FALSE(fs::exists(scratch.path() / "o"));
}

TEST_F(EvalCommand, ABadRowIsNamedAndTheRestIsAsked) {
  expect(0, "eval bytes.safetensors --suite svamp --data problems --out run " + brief,
         "test.jsonl:2: expected a JSON object");
  EXPECT_NE(output.find("SVAMP                      1"), std::string::npos) << output;
}

TEST_F(EvalCommand, RunsAreComparedAndShardsAreFoundFromTheEnvironment) {
  const std::string suite = "--suite math-chat:level=1-2 --limit 3 " + brief;
  expect(0, "eval bytes.safetensors --out plain " + suite, "average");
  expect(0, "eval bytes.safetensors --sane-alpha 3 --out three " + suite, "average");
  for (const char* rank : {"0", "1"})
    EXPECT_EQ(
        run("eval bytes.safetensors --out ranks " + suite, cat("PMI_RANK=", rank, " PMI_SIZE=2")),
        0)
        << output;
  EXPECT_EQ(read_file(scratch.path() / "plain/scores.json"),
            read_file(scratch.path() / "ranks/scores.json"));
  expect(0, "eval --merge ranks", "math-chat level 1");
  expect(0, "compare three plain ranks --baseline plain", "| plain | three (alpha 3) | ranks |");
  expect(0, "compare plain three --format json --out table.json", "");
  expect(0, "compare plain three --format csv --out table.csv", "");
  expect(0, "compare table.csv", "p, paired t-test");
  if (run("compare plain three --figure f.svg") != 0) {  // gnuplot need not be here
    EXPECT_NE(output.find("expected gnuplot to be installed"), std::string::npos) << output;
  }
  EXPECT_TRUE(fs::exists(scratch.path() / "f.svg.gp"));
}

TEST_F(EvalCommand, WritesTheTableOfRunsWithAndWithoutAPrefix) {
  const std::string suite = "--suite math-chat:level=1-2 --limit 2 " + brief;
  const std::string after = " --prefix-corpus math-chat:seed=2 --prefix-tokens 512 ";
  expect(0, "eval bytes.safetensors --out base " + suite, "average");
  expect(0, "eval bytes.safetensors --sane-alpha 3 --out three " + suite, "average");
  expect(0, "eval bytes.safetensors --sane-alpha 3 --out three-after " + after + suite, "average");
  expect(0, "table three-after three base", "| baseline |");
  EXPECT_NE(output.find("| After 512 tokens of "), output.npos) << output;
  expect(0, "table three base --format latex", "\\begin{tabular}");
  expect(0, "table three-after three base --json", "\"sentences\"");
  const nlohmann::json table = nlohmann::json::parse(output);
  ASSERT_EQ(table["models"].size(), 3u) << output;
  EXPECT_EQ(table["models"][0]["name"], "baseline");
  EXPECT_EQ(table["models"][1]["alpha"], 3);
  EXPECT_EQ(table["models"][1]["scores"].size(), table["benchmarks"].size());
  EXPECT_TRUE(table["models"][2]["prefix"].get<std::string>().starts_with("512 tokens of ")) << output;
  expect(0, "table three base --format csv", "prefix,model,alpha,");
  replace_file(scratch.path() / "scores.csv", output);
  expect(0, "table scores.csv", "| alpha 3 |");
  expect(1, "table three base three", "expected one run of each alpha");
  expect(2, "table three base scores.csv", "expected a table of scores to be the only one");
  expect(2, "table three base --level 2", "--level: expected a number between 0 and 1");
  // A stream says why a model was not asked after it, if it overflowed.
  expect(0, "stream bytes.safetensors --corpus math-chat: --tokens 64 --segment 64 --out s",
         "records");
  expect(2, "table three base s", "found a stream that did not");
}

TEST_F(EvalCommand, TheTableOfThePaperIsOneCommand) {
  const std::string scores = cat(DELTASANE_SOURCE, "/test/data/paper/all_scores.csv");
  expect(0, "table " + scores, "Safe range: alpha 3 to 5.");
  EXPECT_NE(output.find("Pareto choice: alpha 3,"), output.npos) << output;
  if (run("table " + scores + " --out paper") != 0)  // gnuplot need not be here
    EXPECT_NE(output.find("gnuplot-nox"), std::string::npos) << output;
  else
    EXPECT_TRUE(fs::exists(scratch.path() / "paper/accuracy.svg"));
  for (const char* name : {"table.md", "table.csv", "table.tex", "p_values.csv"})
    EXPECT_TRUE(fs::exists(scratch.path() / "paper" / name)) << name;
  expect(0, "table paper/table.csv", "Pareto choice: alpha 3,");
}

TEST_F(EvalCommand, AsksAfterAPrefix) {
  const std::string suite = "--suite math-chat:level=1 --limit 3 " + brief;
  const auto after = [&](const std::string& out, int tokens) {
    expect(0,
           cat("eval bytes.safetensors --out ", out, " --prefix-corpus math-chat:seed=2 ",
               "--prefix-tokens ", tokens, " ", suite),
           "average");
    return read_file(scratch.path() / out / "samples.jsonl");
  };
  const auto state_in = [&](const std::string& out) {
    for (const fs::directory_entry& entry : fs::directory_iterator(scratch.path() / out))
      if (entry.path().extension() == ".state") return entry.path();
    return fs::path();
  };
  const auto forget = [&](const std::string& out) {
    for (const char* name : {"samples.jsonl", "problems.jsonl"})
      fs::remove(scratch.path() / out / name);
  };
  const std::string samples = after("long", 10000);
  forget("long");
  EXPECT_EQ(after("long", 10000), samples);  // from the state that was kept
  fs::copy(state_in("long"), scratch.path() / "kept.state");
  expect(0, "eval bytes.safetensors --out state --prefix-state kept.state " + suite, "average");
  EXPECT_EQ(read_file(scratch.path() / "state/samples.jsonl"), samples);

  EXPECT_NE(after("short", 8192), samples);
  fs::copy(state_in("short"), state_in("long"), fs::copy_options::overwrite_existing);
  forget("long");
  EXPECT_EQ(after("long", 10000), samples);  // a long prefix that was interrupted continues
}

// All at once, as mpirun or a script starts them.
TEST_F(EvalCommand, SeveralProcessesReadAPrefixOnce) {
  const std::string suite =
      "--suite math-chat:level=1 --limit 6 --prefix-corpus math-chat:seed=2 --prefix-tokens 20000 " +
      brief;
  expect(0, "eval bytes.safetensors --out alone " + suite, "prefix: reading 20000 tokens");
  const test::Outcome job = test::run_job(
      "", 3,
      {"sh", "-c",
       cat("cd '", scratch.path().string(), "' && exec '", DELTASANE_PROGRAM,
           "' eval bytes.safetensors --out together ", suite)});
  ASSERT_EQ(job.exit_code, 0) << job.output;
  size_t times = 0;
  for (size_t at = 0; (at = job.output.find("prefix: reading", at)) != std::string::npos; ++at)
    ++times;
  EXPECT_EQ(times, 1u) << job.output;
  EXPECT_EQ(read_file(scratch.path() / "together/scores.json"),
            read_file(scratch.path() / "alone/scores.json"));
}

}  // namespace
}  // namespace deltasane
