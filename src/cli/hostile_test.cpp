// Hostile files and arguments: the program refuses them in a line and an exit code, and nothing that
// comes from them moves a terminal's cursor.
#include <gtest/gtest.h>

#include "base/io/file.h"
#include "base/timing.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/random.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

const std::string escape = "\x1b]0;owned\x07\x1b[31m\xc2\x9b" "2J";

std::vector<std::string> command(std::vector<std::string> words) {
  words.insert(words.begin(), DELTASANE_PROGRAM);
  return words;
}

// No signal, no long wait, and one line about it.
void expect_refused(const std::vector<std::string>& words, std::string_view part) {
  const double begin = seconds_now();
  const test::Outcome outcome = test::run(command(words));
  EXPECT_TRUE(outcome.exit_code == 1 || outcome.exit_code == 2) << outcome.exit_code << ": "
                                                                << outcome.output;
  EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  EXPECT_LT(seconds_now() - begin, 20.0);
}

// A name of a file, or of a key in one, that a terminal would obey.
class Hostile : public testing::Test {
 protected:
  Hostile() {
    write_rwkv7_safetensors(path("model.safetensors"), RandomRwkv7(test::small_rwkv7(256), 1),
                            StoredType::f32, {{"note" + escape, "text" + escape}});
  }
  std::string path(const std::string& name) const { return scratch_.path() / name; }
  std::string config(const std::string& from, const std::string& to) const {
    std::string text = R"([model]
layers = 2
channels = 32
head_size = 16
[corpus]
source = "math-chat:seed=1"
tokenizer = "byte"
[optimizer]
steps = 3
[run]
folder = "run"
)";
    text.replace(text.find(from), from.size(), to);
    replace_file(path("train.toml"), text);
    return path("train.toml");
  }
  test::Scratch scratch_;
};

TEST_F(Hostile, SizesInConfigurations) {
  expect_refused({"train", config("layers = 2", "layers = 2147483648")}, "layers: expected 0 to");
  expect_refused({"train", config("layers = 2", "layers = 2\nvocabulary = 9223372036854775807")},
                 "vocabulary: expected 0 to");
  expect_refused({"train", config("channels = 32", "channels = 9223372036854775807")},
                 "channels: expected 0 to");
  expect_refused({"train", config("\"run\"", "\"ru\\u0000n\"")}, "zero characters");
  expect_refused({"train", config("steps = 3", "steps = 3\ncontext = 9223372036854775807")},
                 "context: expected 1 to");
  expect_refused({"train", config("\"run\"", "\"run\"\nthreads = 100000")}, "threads");
}

TEST_F(Hostile, NestedConfigurations) {
  for (const std::string& deep :
       {"a = " + std::string(100'000, '['), "a" + std::string(100'000, '.') + " = 1",
        "[a" + [] {
          std::string parts;
          for (int i = 0; i < 100'000; ++i) parts += ".a";
          return parts;
        }() + "]"})
    expect_refused({"train", config("[run]", deep + "\n[run]")}, "nested at most");
}

TEST_F(Hostile, NestedRowsOfAnswers) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  replace_file(path("rows.jsonl"), "{\"gold\":\"1\",\"pred\":\"1\",\"options\":" + deep +
                                       "}\n{\"gold\":\"1\",\"pred\":\"1\"}\n");
  const test::Outcome outcome = test::run(
      command({"answers", "check", "--batch", path("rows.jsonl"), "--out", path("verdicts.jsonl")}));
  EXPECT_LT(outcome.exit_code, 128) << outcome.output;
  EXPECT_NE(outcome.output.find("nested at most 64"), std::string::npos) << outcome.output;
}

TEST_F(Hostile, RowsOfAnswersThatAreNone) {
  replace_file(path("rows.jsonl"),
               "{\"pred\":\"1\"}\n\n[1]\n{\"gold\":1,\"pred\":\"1\"}\nx\n"
               "{\"gold\":\"1\",\"pred\":\"1\",\"options\":{\"strict\":\"yes\"}}\n");
  const std::string rows = path("rows.jsonl");
  const test::Outcome outcome =
      test::run(command({"answers", "check", "--batch", rows, "--out", path("verdicts.jsonl")}));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  for (const char* part :
       {":1: gold: expected a text, found none\n",
        ":3: row: expected an object with gold and pred, found array\n",
        ":4: gold: expected a text, found number\n", ":5: row: expected JSON, nested at most 64 deep",
        ":6: options: strict: expected boolean, found \"yes\"\n"})
    EXPECT_NE(outcome.output.find(rows + part), std::string::npos) << part << outcome.output;
  EXPECT_EQ(outcome.output.find("json.exception"), std::string::npos) << outcome.output;
}

TEST_F(Hostile, NumbersInFlags) {
  const std::string model = path("model.safetensors"), huge = "9223372036854775807";
  replace_file(path("text.txt"), "hello");
  expect_refused({"generate", model, "--prompt", "a", "--threads", "100000"}, "threads: expected 0");
  fs::create_directories(path("data/svamp"));
  replace_file(path("data/svamp/test.jsonl"),
               "{\"Body\": \"Two cats\", \"Question\": \"How many?\", \"Answer\": 2.0}\n");
  expect_refused({"eval", model, "--suite", "svamp", "--data", path("data"), "--out", path("out"),
                  "--samples", huge},
                 "samples: expected 1 to");
  const std::vector<std::string> stream{"stream",          model,   "--corpus",
                                        "math-chat:seed=1", "--out", path("stream")};
  for (const std::string flag : {"--tokens", "--segment", "--streams", "--checkpoint-every"}) {
    std::vector<std::string> words = stream;
    if (flag != "--tokens") words.insert(words.end(), {"--tokens", "64"});
    words.insert(words.end(), {flag, huge});
    expect_refused(words, flag.substr(2) + ": expected");
  }
}

TEST_F(Hostile, WeightsThatAreNotFinite) {
  std::string bytes = read_file(path("model.safetensors"));
  bytes[bytes.size() - 1] = char(0x7f);  // an exponent of ones
  bytes[bytes.size() - 2] = char(0xff);
  const std::string bad = path("bad.safetensors");
  replace_file(bad, bytes);
  replace_file(path("text.txt"), "hello");
  expect_refused({"score", bad, "--text", path("text.txt")}, "finite");
  expect_refused({"generate", bad, "--prompt", "a"}, "--allow-nonfinite");
  expect_refused({"convert", bad, path("out.safetensors")}, "--allow-nonfinite");
  expect_refused({"graft", bad, path("out.safetensors"), "--alpha", "3"}, "--allow-nonfinite");
  EXPECT_FALSE(fs::exists(path("out.safetensors")));
  const test::Outcome info = test::run(command({"info", bad}));
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_NE(info.output.find("NOT FINITE     tensor 'head.weight': nan at element"),
            std::string::npos)
      << info.output;
  EXPECT_EQ(test::run(command({"convert", bad, path("out.safetensors"), "--allow-nonfinite"}))
                .exit_code,
            0);
}

// What is left of a terminal's output after the line ends, tabs and our own clearing of a line.
std::string controls(std::string output) {
  const std::string own = "\r\x1b[K";
  for (size_t at; (at = output.find(own)) != output.npos;) output.erase(at, own.size());
  std::string found;
  for (size_t i = 0; i < output.size(); ++i) {
    const auto byte = static_cast<unsigned char>(output[i]);
    const bool c1 = byte == 0xc2 && i + 1 < output.size() &&
                    static_cast<unsigned char>(output[i + 1]) < 0xa0;
    if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7f || c1)
      found += output.substr(i, 12) + "|";
  }
  return found;
}

TEST_F(Hostile, NothingMovesTheCursorOfATerminal) {
  const std::string model = path("evil" + escape + ".safetensors");
  fs::copy_file(path("model.safetensors"), model);
  replace_file(path("text" + escape), "hello" + escape);
  replace_file(path("rows.jsonl"), "{\"gold\":\"1" + escape + "\",\"pred\":\"" + escape + "\"}\n");
  replace_file(path("corpus.txt"), "a " + escape + " b\n\nc\n");
  replace_file(path("suite.toml"), "[[benchmark]]\nname = \"x\"\nfile = \"a\\u001b[31m\"\n");
  fs::create_directories(path("folder" + escape));
  const std::string text = path("text" + escape), folder = path("folder" + escape);
  std::vector<std::vector<std::string>> cases{
      {"info", model, "--tensors", "--metadata"},
      {"score", model, "--text", text},
      {"generate", model, "--prompt-file", text, "--tokens", "300", "--temperature", "5"},
      {"tokenize", "byte", "--file", text},
      {"tokenize", text, "--text", "a"},
      {"convert", model, path("out" + escape + ".safetensors")},
      {"graft", model, path("graft" + escape + ".safetensors"), "--alpha", "3"},
      {"train", config("\"run\"", "\"ru\\u001b[31mn\"\nev\\u001bil = 1")},
      {"train", config("steps = 3", "\"st\\u001b[31mps\" = 3")},
      {"corpus", "text:" + path("corpus.txt")},
      {"corpus", "text:" + text},
      {"answers", "check", "--gold", escape, "--pred", escape},
      {"answers", "check", "--batch", path("rows.jsonl"), "--out", path("out" + escape)},
      {"eval", model, "--suite", path("suite.toml"), "--out", folder},
      {"stream", model, "--corpus", "math-chat:seed=1", "--out", path("stream" + escape),
       "--tokens", "2048", "--segment", "512", "--threads", "1"},
      {"diagnose", path("stream" + escape)},
      {"records", path("stream" + escape)},
      {"report", path("stream" + escape), "--out", folder},
      {escape},
      {"--" + escape},
  };
  // Every command, with hostile words where files are expected.
  for (const char* name :
       {"generate", "chat", "score", "info", "tokenize", "convert", "graft", "train", "stream",
        "diagnose", "report", "records", "eval", "compare", "sweep", "corpus", "answers", "demo",
        "bench", "machine", "completion", "manual"}) {
    cases.push_back({name, "--" + escape, escape});
    if (std::string_view(name) != "demo" && std::string_view(name) != "bench")
      cases.push_back({name, folder});
  }
  size_t shown = 0;
  for (const auto& words : cases) {
    const test::Outcome outcome = test::run_on_terminal(command(words));
    EXPECT_LT(outcome.exit_code, 128) << words[0] << ": " << outcome.output;
    EXPECT_FALSE(outcome.output.empty()) << words[0];
    shown += outcome.output.find("\\x1b") != std::string::npos;
    EXPECT_EQ(controls(outcome.output), "") << words[0] << ": " << outcome.output;
  }
  EXPECT_GT(shown, cases.size() / 2);  // the escapes did come that far
}

TEST_F(Hostile, APipeGetsTheBytesOfATextAsTheyAre) {
  replace_file(path("corpus.txt"), "a " + escape + " b\n");
  const auto words = command({"corpus", "text:" + path("corpus.txt")});
  EXPECT_NE(test::run(words).output.find(escape), std::string::npos);
  const std::string shown = test::run_on_terminal(words).output;
  EXPECT_NE(shown.find("\\x1b]0;owned\\x07"), std::string::npos) << shown;
}

// The files that ended badly once, where they are.
TEST_F(Hostile, FilesThatOnceFooledTheProgram) {
  const fs::path hostile = fs::path(DELTASANE_SHARED) / "data/hostile";
  std::error_code ignored;
  if (!fs::is_directory(hostile, ignored)) GTEST_SKIP() << hostile << " is not here";
  const auto file = [&](const char* name) { return (hostile / name).string(); };
  replace_file(path("text.txt"), "hello");
  expect_refused({"info", file("gguf-one-bit-type.gguf")}, "expected it at byte");
  for (const char* name : {"nan-weight.safetensors", "nan-weight.gguf", "inf-weight.safetensors"})
    expect_refused({"score", file(name), "--text", path("text.txt"), "--tokenizer", "byte"},
                   "finite");
  for (const char* name : {"layers-2e31.toml", "vocabulary-int64max.toml", "nul-folder.toml"})
    expect_refused({"train", file(name)}, "expected");
  const test::Outcome rows = test::run(
      command({"answers", "check", "--batch", file("answers-deep-options.jsonl"), "--out", path("o")}));
  EXPECT_LT(rows.exit_code, 128);
  for (const auto& words : {
           std::vector<std::string>{"info", file("escape-metadata.safetensors"), "--metadata"},
           {"diagnose", file("state-1228.state")}}) {
    EXPECT_EQ(controls(test::run_on_terminal(command(words)).output), "") << words[1];
    EXPECT_EQ(controls(test::run(command(words)).output), "") << words[1];
  }
}

// Another program makes a mapped file shorter while the model is used.
TEST_F(Hostile, AModelThatBecomesShorterIsNamed) {
  const test::Outcome outcome = test::run({"bash", "-c", R"(cd "$2" && mkfifo lines
"$1" chat model.safetensors --tokenizer byte --tokens 4 --threads 1 < lines > said 2>&1 &
exec 3> lines; echo "/save kept" >&3
for i in $(seq 400); do [ -e kept ] && break; sleep 0.05; done
truncate -s 100 model.safetensors; echo hello >&3; exec 3>&-
wait $!; code=$?; cat said; exit $code)",
                                           "bash", DELTASANE_PROGRAM, scratch_.path()});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("kept in kept"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("model.safetensors: expected the bytes that were there"),
            std::string::npos)
      << outcome.output;
}

// As other programs: no message where `head` has seen enough, and the code of SIGPIPE.
TEST_F(Hostile, AReaderOfTheOutputMayGoAway) {
  for (const char* words : {"--help", "manual", "corpus math-chat: --bytes 3000000",
                            "info model.safetensors", "info model.safetensors --json",
                            "sweep --model model.safetensors --alphas 2 --tokenizer byte --corpus "
                            "math-chat:level=1 --tokens 512 --out swept"}) {
    // The program begins when nobody reads any more.
    const test::Outcome outcome = test::run(
        {"bash", "-c",
         R"(cd "$2"; { sleep 0.1; "$1" $3; echo $? > code; } 2> said | true; cat said; exit $(cat code))",
         "bash", DELTASANE_PROGRAM, scratch_.path(), words});
    EXPECT_EQ(outcome.output, "") << words;
    EXPECT_EQ(outcome.exit_code, 141) << words << ": " << outcome.output;
  }
}

}  // namespace
}  // namespace deltasane::cli
