// The long-stream commands, as a user runs them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/io/file.h"
#include "eval/stream/fixture_stress.h"
#include "eval/stream/stream_folder.h"
#include "format/npy/fixture_indexed.h"
#include "kernel/sane/tau.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

struct Said {
  int code;
  std::string text;
};

Said say(const std::string& words, const std::string& redirect = " 2>&1") {
  FILE* const pipe = popen((std::string(DELTASANE_PROGRAM) + " " + words + redirect).c_str(), "r");
  Said said{-1, {}};
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) said.text.append(buffer, n);
  const int status = pclose(pipe);
  said.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return said;
}

nlohmann::json json_said(const std::string& words) {
  const Said said = say(words, " 2>/dev/null");
  EXPECT_EQ(said.code, 0) << words;
  return nlohmann::json::parse(said.text);
}

class StreamCommands : public testing::Test {
 protected:
  test::Scratch scratch;
  const std::string model = file("model.safetensors"), run = file("run");

  StreamCommands() { write_model(model, 1); }

  std::string file(const std::string& name) const { return (scratch.path() / name).string(); }
  static void write_model(const std::string& path, uint64_t seed) {
    const Rwkv7Shape shape{2, 32, 2, 16, 64, 256, 4, 4, 4, 4};
    write_rwkv7_safetensors(path, RandomRwkv7(shape, seed), StoredType::f32, {});
  }
  std::string stream(const std::string& flags) const {
    return "stream " + model + " --corpus math-chat:seed=1 --segment 256 --out " + run + " " +
           flags;
  }
  void expect_refusal(const std::string& words, int code, const std::string& part) const {
    const Said said = say(words);
    EXPECT_EQ(said.code, code) << words << "\n" << said.text;
    EXPECT_NE(said.text.find(part), std::string::npos) << words << "\n" << said.text;
  }
};

// Nothing was asked of the first, so its page says nothing of answers.
TEST_F(StreamCommands, ReportsLeaveOutWhatIsEmpty) {
  EXPECT_EQ(say(stream("--tokens 1024")).code, 0);
  const std::string page = file("report.html");
  EXPECT_EQ(say("report " + run + " --out " + page).code, 0);
  EXPECT_EQ(read_file(page).find(">accuracy, first<"), std::string::npos);
  EXPECT_NE(read_file(page).find(">norm, first<"), std::string::npos);
  const std::string asked = file("asked");
  EXPECT_EQ(say("stream " + model + " --corpus math-chat:seed=1 --segment 256 --tokens 512 --probe-at 0 "
                "--probe-problems 2 --probe-tokens 2 --out " + asked).code, 0);
  EXPECT_EQ(say("report " + run + " " + asked + " --out " + page).code, 0);
  EXPECT_NE(read_file(page).find(">accuracy, first<"), std::string::npos);
}

TEST_F(StreamCommands, SuggestsCommandsThatAShellTakes) {
  const Said said = say("stream " + model + " --corpus math-chat:seed=1 --segment 256 --tokens 256 --out '" +
                        file("with blanks") + "'");
  EXPECT_NE(said.text.find("`deltasane diagnose '" + file("with blanks") + "'`"), said.text.npos) << said.text;
}

TEST_F(StreamCommands, ReadsIndexedTokens) {
  std::vector<uint16_t> item(700, 65);
  const test::IndexedFiles files = test::indexed_files({item, {66, 67}});
  replace_file(file("x.idx"), files.index);
  replace_file(file("x.bin"), files.tokens);
  const auto found = json_said("stream " + model + " --corpus binidx:" + file("x") +
                               " --segment 256 --tokens 1024 --tokenizer byte --json --out " + run);
  EXPECT_EQ(found["tokens"], 1024);
  EXPECT_EQ(
      say("corpus binidx:" + file("x") + ",piece=2 --skip 350 --bytes 2 --tokenizer byte").text,
      "BC");
}

TEST_F(StreamCommands, StreamDiagnoseAndExport) {
  const auto first =
      json_said(stream("--tokens 4096 --snapshots 1024,2048 --probe-every 2048 --json"));
  EXPECT_EQ(first["tokens"], 4096);
  EXPECT_TRUE(first["overflows"].empty());
  EXPECT_LT(first["recording_share"], 1);
  const auto more =
      json_said(stream("--tokens 8192 --snapshots 1024,2048 --probe-every 2048 --resume --json"));
  EXPECT_EQ(more["resumed_at"], 4096);
  EXPECT_EQ(more["tokens"], 8192);

  const auto found = json_said("diagnose " + run + " --json");
  EXPECT_EQ(found["position"], 8192);
  EXPECT_EQ(found["records"], 32);
  EXPECT_EQ(found["heads"].size(), 4u);
  const auto state =
      json_said("diagnose " + run + "/snapshots/stream-0-position-2048.state --json");
  EXPECT_EQ(state["position"], 2048);
  EXPECT_NE(say("diagnose " + run).text.find("anomalous heads"), std::string::npos);

  EXPECT_EQ(say("records " + run + " --csv " + file("tables")).code, 0);
  const std::string segments = read_file(file("tables") + "/segments.csv");
  EXPECT_EQ(std::ranges::count(segments, '\n'), 1 + 32);
  EXPECT_TRUE(segments.starts_with("stream,position,tokens,overflow"));
  EXPECT_EQ(std::ranges::count(read_file(file("tables") + "/heads.csv"), '\n'), 1 + 32 * 4);
  EXPECT_EQ(std::ranges::count(read_file(file("tables") + "/probes.csv"), '\n'), 1 + 5);
  EXPECT_FALSE(fs::exists(file("tables") + "/losses.csv"));
  EXPECT_EQ(say("records " + run + " --losses --csv " + file("tables")).code, 0);
  const std::string losses = read_file(file("tables") + "/losses.csv");
  EXPECT_EQ(std::ranges::count(losses, '\n'), 1 + 8192);
  EXPECT_TRUE(losses.starts_with("stream,position,loss\n0,1,"));
  EXPECT_NE(losses.find("\n0,8192,"), std::string::npos);
}

TEST_F(StreamCommands, ReportIsOneFile) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "gnuplot is not installed";
  json_said(stream("--tokens 2048 --snapshots 1024 --probe-every 1024 --json"));
  const Said said =
      say("report " + run + " " + run + " --names 'one <1>,two' --out " + file("page.html"));
  EXPECT_EQ(said.code, 0) << said.text;
  const std::string page = read_file(file("page.html"));
  EXPECT_NE(page.find("one &lt;1&gt;"), std::string::npos);
  EXPECT_EQ(page.find("one <1>"), std::string::npos);
  const auto count = [&](std::string_view part) {
    size_t found = 0;
    for (size_t at = page.find(part); at != page.npos; at = page.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("<svg"), 2u);                // heat maps
  EXPECT_EQ(count("<figure class=chart"), 9u);  // accuracy, 2 norms, 2 perplexities, layers, heads
  EXPECT_LT(page.find("Accuracy from the state"), page.find("Norm of the state"));
  EXPECT_LT(page.find("Norm of the state"), page.find("Local perplexity"));
  EXPECT_EQ(count("<h2>"), 11u);
  EXPECT_EQ(count("role=img aria-label=\"|S| of all"), 2u);
  // Nothing is fetched: every address names a kind of markup.
  for (size_t at = page.find("http"); at != page.npos; at = page.find("http", at + 1))
    EXPECT_EQ(page.compare(at, 18, "http://www.w3.org/"), 0) << page.substr(at, 60);
  for (const char* name : {"local_perplexity", "cumulative_perplexity", "state_norm", "accuracy",
                           "layer_norms_2", "state_maps_1"})
    for (const char* kind : {".svg", ".png"})
      EXPECT_TRUE(fs::exists(file("page-figures") + "/" + name + kind)) << name << kind;
}

TEST_F(StreamCommands, ReportTellsFoldersOfTheSameNameApart) {
  json_said(stream("--tokens 1024 --json"));
  for (const char* const above : {"first", "second"}) {
    fs::create_directories(file(above));
    fs::copy(run, file(above) + "/same", fs::copy_options::recursive);
  }
  const Said said = say("report " + file("first") + "/same " + file("second") + "/same/ " + run +
                        " " + run + " --out " + file("page.html"));
  EXPECT_EQ(said.code, 0) << said.text;
  const std::string page = read_file(file("page.html"));
  const std::string twice = fs::path(run).filename().string();
  for (const std::string& name : {std::string("first/same"), std::string("second/same"),
                                  twice + " (1)", twice + " (2)"})
    EXPECT_NE(page.find(name), page.npos) << name;
}

TEST_F(StreamCommands, FiguresAreThoseOfThePaper) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "gnuplot is not installed";
  json_said(stream("--tokens 2048 --snapshots 256,512,1024,1536,2048 --json"));
  const std::string sane = file("sane");
  json_said("stream " + model + " --sane-alpha 3 --corpus math-chat:seed=2 --segment 256 --out " +
            sane + " --tokens 1024 --snapshots 1024 --json");
  const std::string out = file("figures");
  const Said said = say("figures " + run + " " + sane + " --names first,second --out " + out);
  EXPECT_EQ(said.code, 0) << said.text;
  const auto expect_words = [&](const std::string& name, std::vector<std::string> words) {
    const std::string svg = read_file(out + "/" + name + ".svg");
    for (const std::string& word : words)
      EXPECT_NE(svg.find(word), svg.npos) << name << ": " << word;
    EXPECT_TRUE(fs::exists(out + "/" + name + ".png"));
    return svg;
  };
  expect_words("long_perplexity_1",
               {"first", "each token", "mean over 50 tokens", "cumulative", "Norm of the state"});
  expect_words("perplexity_panels", {"baseline: math-chat:seed=1", "SANE: math-chat:seed=2",
                                     "first", "second", "stroke-dasharray"});
  const std::string maps = expect_words("state_evolution_1", {"L0", "L1", "256 tokens"});
  EXPECT_NE(maps.find("2K tokens"), maps.npos);  // the first and the last of five, and two between
  EXPECT_EQ(maps.find("1536 tokens"), maps.npos);
  expect_words("state_evolution_2", {"1K tokens", "100"});
  expect_words("small_entries", {"below 0.1", "first", "second"});

  EXPECT_EQ(say("figures " + sane + " --positions 1024 --scale 2 --out " + file("two")).code, 0);
  EXPECT_EQ(read_file(file("two/state_evolution_1.svg")).find(">100<"), std::string::npos);
  expect_refusal("figures " + run + " --positions 300 --out " + out, 2,
                 "expected snapshots of run (256,512,1024,1536,2048), found 300");
  expect_refusal("figures " + run + " --scale 0 --out " + out, 2, "--scale: expected");
  expect_refusal("figures " + run + " --names a,b --out " + out, 2, "--names: expected one");
  // A run from before losses of single tokens has figures of its segments.
  fs::remove(fs::path(run) / losses_file);
  EXPECT_EQ(say("figures " + run + " --out " + out).code, 0);
  expect_words("long_perplexity_1", {"each segment"});
}

// A state that grows by a tenth every token exceeds float within 900 tokens.
TEST_F(StreamCommands, FiguresMarkAnOverflow) {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "gnuplot is not installed";
  test::write_stress_model(model, 2, {{1, 2, true, 0.1}});
  std::string text;
  while (text.size() < 2048) text += "ab";
  replace_file(file("ab.txt"), text);
  const Said read = say("stream " + model + " --corpus text:" + file("ab.txt") +
                        " --segment 256 --tokens 2048 --out " + run);
  EXPECT_NE(read.text.find("overflowed after 971 tokens"), std::string::npos) << read.text;
  const Said said = say("figures " + run + " --out " + file("figures"));
  EXPECT_EQ(said.code, 0) << said.text;
  const std::string svg = read_file(file("figures/long_perplexity_1.svg"));
  EXPECT_NE(svg.find("overflow after 971 tokens"), std::string::npos);
}

TEST_F(StreamCommands, RefuseWhatCannotBe) {
  expect_refusal(
      "stream " + file("none.pth") + " --corpus math-chat:seed=1 --tokens 9 --out " + run, 1,
      "none.pth");
  expect_refusal("stream " + model + " --tokens 9 --out " + run, 2, "--corpus");
  expect_refusal("stream " + model + " --corpus math-chta: --tokens 9 --out " + run, 2,
                 "math-chat");
  replace_file(file("empty.txt"), "");
  expect_refusal(
      "stream " + model + " --corpus text:" + file("empty.txt") + " --tokens 9 --out " + run, 1,
      "empty");
  expect_refusal(stream("--tokens 0"), 2, "tokens: expected 1 to 2^53, found 0");
  expect_refusal("stream " + model + " --corpus math-chat: --tokens 9 --segment 100 --out " + run,
                 2, "segment: expected a positive multiple");
  expect_refusal(stream("--tokens 9 --snapshots 0"), 2, "snapshots: expected positions above 0");
  expect_refusal(stream("--tokens 9 --sane-alpha 3 --no-sane"), 2,
                 "--sane-alpha and --no-sane: expected one of them");
  EXPECT_FALSE(fs::exists(fs::path(run) / segments_file));
  for (const char* command : {"diagnose ", "records ", "report ", "figures "})
    expect_refusal(command + scratch.path().string(), 1, "deltasane stream");
  expect_refusal("diagnose " + model, 1, "expected a state file");
}

TEST_F(StreamCommands, RefuseTheFolderOfAnotherModel) {
  json_said(stream("--tokens 512 --json"));
  expect_refusal(stream("--tokens 1024"), 1, "(resume)");
  const std::string other = file("other.safetensors");
  write_model(other, 2);
  expect_refusal("stream " + other +
                     " --corpus math-chat:seed=1 --segment 256 --tokens 1024 --out " + run +
                     " --resume",
                 1, "the folder belongs to another run");
}

TEST_F(StreamCommands, DamagedRecordsAreReadAsFarAsTheyAreIntact) {
  json_said(stream("--tokens 4096 --json"));
  const fs::path path = fs::path(run) / heads_file;
  std::string bytes = read_file(path);
  bytes[bytes.size() * 3 / 4] ^= 4;
  replace_file(path, bytes);
  const Said said = say("records " + run + " --csv " + file("tables"));
  EXPECT_EQ(said.code, 0);
  EXPECT_NE(said.text.find("does not match its checksum"), std::string::npos) << said.text;
  EXPECT_GE(std::ranges::count(read_file(file("tables") + "/heads.csv"), '\n'), 1 + 40);
  EXPECT_NE(say("diagnose " + run).text.find("going by the"), std::string::npos);
  expect_refusal(stream("--tokens 8192 --resume"), 1, "the records are damaged");
  EXPECT_EQ(read_file(path), bytes);
}

TEST_F(StreamCommands, AnAdaptiveStrengthNeedsSane) {
  expect_refusal(stream("--tokens 1024 --sane-adaptive"), 2, "sane-adaptive: expected a model");
  expect_refusal(stream("--tokens 1024 --sane-adaptive --sane-alpha -1"), 2, "alpha of 1 or more");
  EXPECT_EQ(say(stream("--tokens 1024 --sane-adaptive --sane-alpha 10")).code, 0);
}

TEST_F(StreamCommands, AnAlphaBelowZeroHoldsEntriesBelowOne) {
  EXPECT_EQ(say(stream("--tokens 1024 --snapshots 1024 --sane-alpha -1.4")).code, 0);
  EXPECT_EQ(say("records " + run + " --csv " + file("tables")).code, 0);
  const std::string segments = read_file(file("tables") + "/segments.csv");
  const double largest = std::stod(segments.substr(segments.rfind(',') + 1));
  EXPECT_GT(largest, 0);
  EXPECT_LE(largest, float(kernel::tau_at_zero(-1.4)));  // 0.03
}

TEST_F(StreamCommands, TheDemonstrationTakesModelsThatAreThere) {
  fs::create_directories(file("models"));
  for (const char* name : {"arithmetic-baseline", "arithmetic-sane-3"})
    write_model(file(std::string("models/") + name + ".safetensors"), 1);
  const Said said =
      say("demo --tokens 4096 --threads 1 --models " + file("models") + " --out " + file("demo"));
  EXPECT_EQ(said.code, 0) << said.text;
  const auto summary = nlohmann::json::parse(read_file(file("demo/summary.json")));
  EXPECT_EQ(summary.at("models"), "shipped");
  EXPECT_EQ(summary.at("tokens"), 4096);
}

TEST_F(StreamCommands, ADemonstrationContinuesAnEarlierOne) {
  fs::create_directories(file("models"));
  for (const char* name : {"arithmetic-baseline", "arithmetic-sane-3"})
    write_model(file(std::string("models/") + name + ".safetensors"), 1);
  const auto demo = [&](const std::string& out, const std::string& tokens) {
    const Said said = say("demo --threads 1 --models " + file("models") + " --out " + file(out) +
                          " --tokens " + tokens);
    EXPECT_EQ(said.code, 0) << said.text;
    return said.text.substr(0, said.text.find("\nreport "));
  };
  const auto summary = [&](const std::string& out) { return read_file(file(out + "/summary.json")); };
  demo("parts", "4096");
  const std::string continued = demo("parts", "10000"), whole = demo("whole", "10000");
  EXPECT_EQ(summary("parts"), summary("whole"));
  const size_t line = whole.find("\n\n") + 1;
  EXPECT_TRUE(continued.ends_with(whole.substr(line))) << continued;
  EXPECT_NE(continued.find("read 4096 of them; another --out begins anew"), continued.npos);
  const std::string shorter = demo("parts", "4096");
  EXPECT_NE(shorter.find("read 10000 of them"), shorter.npos) << shorter;
  EXPECT_EQ(summary("parts"), summary("whole"));
}

TEST_F(StreamCommands, ADemonstrationContinuesBehindAnOverflow) {
  fs::create_directories(file("models"));
  for (const char* name : {"arithmetic-baseline", "arithmetic-sane-3"})
    test::write_stress_model(file(std::string("models/") + name + ".safetensors"), 2, {{1, 2, false, 1e35}});
  nlohmann::json found[2];
  for (int i = 0; i < 2; ++i) {
    const Said said = say("demo --threads 1 --models " + file("models") + " --out " + file("demo") +
                          " --tokens " + (i == 0 ? "4096" : "8192"));
    EXPECT_EQ(said.code, 0) << said.text;
    found[i] = nlohmann::json::parse(read_file(file("demo/summary.json")));
  }
  EXPECT_NE(found[0]["baseline"]["overflow"], "");
  for (const char* const one : {"baseline", "sane"}) EXPECT_EQ(found[0][one], found[1][one]);
}

TEST_F(StreamCommands, TheDemonstrationRefusesWhatCannotBe) {
  expect_refusal("demo --alpha 0 --out " + run, 2, "alpha: expected a number above 0");
  expect_refusal("demo --alpha 1e300 --out " + run, 2, "up to 1e+30, found 1e+300");
  expect_refusal("demo --tokens 0 --out " + run, 2, "--tokens: expected at least 4096, found 0");
  EXPECT_FALSE(fs::exists(run));
}

}  // namespace
}  // namespace deltasane
