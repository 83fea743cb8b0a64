// Publishing as a person does it, and the folders in the programs that they are for.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/crc32/crc32.h"
#include "format/open.h"
#include "text/chat/world_chat.h"
#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/reference/reference.h"
#include "support/process.h"
#include "support/scratch.h"
#include "tensor/closeness.h"
#include "text/utf8.h"
#include "text/vocabulary/fixture_vocabulary.h"
#include "text/world_tokenizer.h"

namespace deltasane::cli {
namespace {

Rwkv7Shape baseline(Rwkv7Shape shape) {
  shape.sane = false;
  return shape;
}

class Published : public testing::Test {
 protected:
  Published() {
    write(StoredType::bf16);
    replace_file(at("rwkv_vocab_v20230424.txt"), test::world_lines(test::small_tokens()));
  }

  void write(StoredType type) const {
    write_rwkv7_safetensors(at("model.safetensors"), RandomRwkv7(shape_, 1), type,
                            {{"sane.alpha", "0.3"}, {"sane.chunk", "8"}});
  }
  std::string at(const std::string& name) const { return scratch_.path() / name; }
  test::Outcome program(std::vector<std::string> words) const {
    words.insert(words.begin(), DELTASANE_PROGRAM);
    return test::run(words);
  }
  void expect(int code, const std::vector<std::string>& words, std::string_view part) const {
    const test::Outcome outcome = program(words);
    EXPECT_EQ(outcome.exit_code, code) << outcome.output;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  }
  size_t files() const {
    return size_t(std::distance(fs::directory_iterator(scratch_.path()), {}));
  }
  void expect_same_model(const std::string& path) const {
    const Rwkv7Checkpoint found(path), written(at("model.safetensors"));
    EXPECT_EQ(found.names(), written.names());
    EXPECT_EQ(found.sane(), (SaneSettings{0.3, 8}));
    for (const std::string& name : written.names()) {
      const Tensor<float> a = found.read(name), b = written.read(name);
      EXPECT_EQ(found.type(name), written.type(name)) << name;
      ASSERT_EQ(a.shape(), b.shape()) << name;
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.span().size_bytes()), 0) << name;
    }
  }

  // DELTASANE_PYTHON, or python3.
  test::Outcome python(std::vector<std::string> words) const {
    const char* const named = std::getenv("DELTASANE_PYTHON");
    words.insert(words.begin(), {"env", cat("HF_HOME=", at("cache")), named ? named : "python3",
                                 DELTASANE_SOURCE "/test/support/load_published.py"});
    return test::run(words);
  }
  bool has(const std::vector<std::string>& modules) const {
    std::vector<std::string> words{"imports"};
    words.insert(words.end(), modules.begin(), modules.end());
    return python(words).exit_code == 0;
  }

  test::Scratch scratch_;
  Rwkv7Shape shape_{.layers = 2,
                    .channels = 128,
                    .heads = 2,
                    .head_size = 64,
                    .feed_forward = 512,
                    .vocabulary = int64_t(test::small_tokens().size()) + 3,
                    .rank_w = 32,
                    .rank_a = 16,
                    .rank_v = 8,
                    .rank_g = 24,
                    .sane = true};
};

TEST_F(Published, FolderAndFileComeBackBitEqual) {
  for (const StoredType type : {StoredType::bf16, StoredType::f16, StoredType::f32}) {
    write(type);
    const std::string name(name_of(type));
    expect(0, {"publish", at("model.safetensors"), at("hf-" + name)}, "written, " + name);
    expect(0, {"publish", at("model.safetensors"), at("pth-" + name), "--format", "pth"},
           "written, " + name);
    expect(0, {"convert", at("model.safetensors"), at(name + ".pth")}, "written, " + name);
    expect_same_model(at("hf-" + name));
    expect_same_model(at(cat("pth-", name, "/pth-", name, ".pth")));
    expect_same_model(at("pth-" + name));
    expect_same_model(at(name + ".pth"));
    // and once more, from what was published
    expect(0, {"convert", at("hf-" + name), at("again.pth")}, "written");
    expect(0, {"publish", at("again.pth"), at("again-" + name)}, "written");
    expect_same_model(at("again-" + name));
    for (const char* const file : {"model.safetensors", "config.json", "tokenizer_config.json"})
      EXPECT_EQ(read_file(at(cat("hf-", name, "/", file))),
                read_file(at(cat("again-", name, "/", file))));
  }
  // With its tokenizer, so that nothing else is needed to run it.
  for (const char* const folder : {"hf-bf16", "pth-bf16"}) {
    expect(0, {"generate", at(folder), "--prompt", "abc", "--tokens", "3"}, "3 written");
    expect(0, {"tokenize", at(folder), "--text", ""}, "\n");
  }
}

TEST_F(Published, AFolderHasOneModel) {
  write(StoredType::f32);
  fs::create_directory(at("folder"));
  expect(1, {"info", at("folder")}, "or one model file in the folder, found none");
  expect(0, {"convert", at("model.safetensors"), at("folder/b.gguf")}, "written");
  expect(0, {"info", at("folder")}, "gguf");
  fs::copy_file(at("model.safetensors"), at("folder/a.safetensors"));
  expect(1, {"info", at("folder")}, "found 'a.safetensors', 'b.gguf'");
}

TEST_F(Published, CardSaysWhatItWasTold) {
  replace_file(at("scores.csv"), "model,GSM8K,\"MATH, hard\"\nbaseline,10.5,3\nalpha 3,12,4\n");
  replace_file(at("scores.md"), "| model | x |\n|---|---|\n| a | 1 |\n\nA note.\n");
  const auto card = [&](const std::string& table) {
    const std::string out = at("out-" + table);
    expect(0,
           {"publish", at("model.safetensors"), out, "--name", "Small one", "--license", "mit",
            "--base-model", "some/base", "--table", at(table)},
           "written");
    return read_file(out + "/README.md");
  };
  const std::string csv = card("scores.csv"), markdown = card("scores.md");
  EXPECT_TRUE(csv.starts_with("---\nlicense: mit\nbase_model: some/base\n")) << csv;
  for (const char* const part :
       {"# Small one\n", "| model | GSM8K | MATH, hard |\n|---|---|---|\n| baseline | 10.5 | 3 |\n",
        "alpha = 0.3", "every 8 tokens", "as its baseline", "from_pretrained(\"Small one\")"})
    EXPECT_NE(csv.find(part), csv.npos) << part << "\n" << csv;
  EXPECT_NE(markdown.find(read_file(at("scores.md"))), markdown.npos) << markdown;
  write_rwkv7_safetensors(at("plain.safetensors"), RandomRwkv7(baseline(shape_), 1),
                          StoredType::f32, {});
  expect(0, {"publish", at("plain.safetensors"), at("plain")}, "written");
  const std::string plain = read_file(at("plain/README.md"));
  EXPECT_EQ(plain.find("SANE"), plain.npos) << plain;
  EXPECT_EQ(plain.find("Scores"), plain.npos) << plain;
}

TEST_F(Published, NothingIsLeftOfWhatWasRefused) {
  replace_file(at("no-table.md"), "no table\n");
  fs::create_directory(at("there"));
  replace_file(at("there/file"), "");
  const size_t before = files();
  const auto refused = [&](int code, std::vector<std::string> more, std::string_view part) {
    more.insert(more.begin(), {"publish", at("model.safetensors")});
    expect(code, more, part);
    EXPECT_EQ(files(), before) << part;
  };
  refused(2, {at("there")}, "expected a folder that is not there or empty");
  refused(2, {at("new"), "--type", "q8_0"}, "expected f32, f16 or bf16");
  refused(2, {at("new"), "--format", "pth", "--type", "q8_0"}, "expected f32, f16 or bf16");
  refused(2, {at("new"), "--format", "gguf"}, "--format");
  refused(2, {at("new"), "--name", "a/b"}, "expected a name without '/'");
  refused(2, {at("new"), "--license", "a: b"}, "--license: expected plain words");
  refused(1, {at("new"), "--table", at("no-table.md")}, "expected a table");
  refused(1, {at("new"), "--tokenizer", at("nothing")}, at("nothing"));
  refused(1, {at("there/file/new")}, "there/file/new");
}

TEST_F(Published, TorchLoadsThePth) {
  if (!has({"torch"})) GTEST_SKIP() << "this Python has no torch";
  const std::pair<StoredType, const char*> types[] = {{StoredType::bf16, "torch.bfloat16"},
                                                      {StoredType::f16, "torch.float16"},
                                                      {StoredType::f32, "torch.float32"}};
  std::vector<std::string> words{"pth"};
  std::string expected;
  for (const auto& [type, name] : types) {
    write(type);
    words.push_back(at(cat(name, ".pth")));
    expect(0, {"convert", at("model.safetensors"), words.back()}, "written");
    const TensorFile file = open_tensor_file(words.back());
    for (const StoredTensor& tensor : file.tensors()) {
      std::string shape;
      for (const int64_t size : tensor.shape) shape += cat(shape.empty() ? "" : ", ", size);
      expected += cat(tensor.name, " ",
                      tensor.type == StoredType::f64   ? "torch.float64"
                      : tensor.type == StoredType::i64 ? "torch.int64"
                                                       : name,
                      " [", shape, "] ", crc32(tensor.bytes), "\n");
    }
  }
  EXPECT_NE(expected.find("sane.alpha torch.float64 [1]"), expected.npos);
  const test::Outcome loaded = python(words);
  EXPECT_EQ(loaded.exit_code, 0) << loaded.output;
  EXPECT_EQ(loaded.output, expected);
}

// It runs the baseline, as the card says. The bound is that of docs/numerics.md for whole models.
TEST_F(Published, FlaRunsTheFolder) {
  if (!has({"torch", "triton", "safetensors", "fla.models"})) GTEST_SKIP() << "this Python has no fla";
  write(StoredType::f32);
  expect(0, {"publish", at("model.safetensors"), at("hf")}, "written");
  const std::vector<int32_t> tokens{7, 200, 13, 13, 99, 256, 0, 1, 31, 77, 180};
  const test::Outcome ran = python({"fla", at("hf"), nlohmann::json(tokens).dump(), at("logits")});
  ASSERT_EQ(ran.exit_code, 0) << ran.output;
  EXPECT_NE(ran.output.find(R"(sane {"alpha": 0.3, "chunk": 8})"), std::string::npos) << ran.output;
  const std::string bytes = read_file(at("logits"));
  std::vector<float> found(tokens.size() * size_t(shape_.vocabulary));
  ASSERT_EQ(bytes.size(), found.size() * sizeof(float));
  std::memcpy(found.data(), bytes.data(), bytes.size());
  const RandomRwkv7 source(baseline(shape_), 1);
  const auto plain = reference::rwkv7<float>(source, baseline(shape_), {}, tokens);
  const auto truth = reference::rwkv7<double>(source, baseline(shape_), {}, tokens);
  const Closeness close = closeness(found, plain.logits, truth.logits, Criterion::rms_error);
  EXPECT_TRUE(close.close) << close.explanation();
  // SANE, which acts after 8 of the tokens, would be seen.
  const auto sane =
      reference::rwkv7<float>(RandomRwkv7(shape_, 1), shape_, {.alpha = 0.3, .chunk = 8}, tokens);
  EXPECT_FALSE(closeness(sane.logits, plain.logits, truth.logits, Criterion::rms_error).close);
}

TEST_F(Published, TransformersReadsTheTokenizer) {
  if (!has({"transformers"})) GTEST_SKIP() << "this Python has no transformers";
  expect(0, {"publish", at("model.safetensors"), at("hf")}, "written");
  const WorldTokenizer own = world_from_file(at("rwkv_vocab_v20230424.txt"));
  std::vector<std::string> texts{"",
                                 "The cat sat.",
                                 "\n\n  \t",
                                 "<|rwkv_tokenizer_end_of_text|>",
                                 "\xE4\xBD\xA0\xE5\xA5\xBD, \xF0\x9F\x98\x80!",
                                 "'\"\\"};
  for (const std::string& token : test::small_tokens())
    if (valid_utf8(token)) texts.push_back(cat("x", token, token, "y"));
  const test::Outcome ran = python({"tokenizer", at("hf"), nlohmann::json(texts).dump()});
  ASSERT_EQ(ran.exit_code, 0) << ran.output;
  const size_t begin = ran.output.find("found {");
  ASSERT_NE(begin, std::string::npos) << ran.output;
  const auto found = nlohmann::json::parse(ran.output.substr(begin + 6));
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(found["ids"][i].get<std::vector<int32_t>>(), own.encode(texts[i])) << texts[i];
    EXPECT_EQ(found["texts"][i], texts[i]);
  }
  EXPECT_EQ(found["end"], 0);
  const Message message{Role::user, " hi "};
  EXPECT_EQ(found["chat"], chat_prompt({&message, 1}, ReplyMode::plain));
}

}  // namespace
}  // namespace deltasane::cli
