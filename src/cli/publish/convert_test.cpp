// Conversions between formats and types, and the files in the programs that they are for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "base/crc32/crc32.h"
#include "format/gguf/gguf.h"
#include "format/open.h"
#include "format/safetensors/safetensors.h"
#include "format/tokenizer/find_tokenizer.h"
#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/random.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

class Convert : public testing::Test {
 protected:
  Convert() { write_rwkv7_safetensors(at("m.safetensors"), RandomRwkv7(shape_, 1), StoredType::bf16, {}); }
  std::string at(const std::string& name) const { return scratch_.path() / name; }
  void convert(std::vector<std::string> words, std::string_view said) const {
    words.insert(words.begin(), {DELTASANE_PROGRAM, "convert"});
    const test::Outcome outcome = test::run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find(said), std::string::npos) << outcome.output;
  }
  StoredType type(const std::string& file, const char* tensor) const {
    return open_gguf(at(file)).find(tensor)->type;
  }

  test::Scratch scratch_;
  Rwkv7Shape shape_{.layers = 9, .channels = 256, .heads = 4, .head_size = 64, .feed_forward = 256,
                    .vocabulary = 256, .rank_w = 8, .rank_a = 8, .rank_v = 8, .rank_g = 8};
};

TEST_F(Convert, WritesEveryTypeAndMixture) {
  for (const std::string name : {"q8_0", "q6_k", "q5_k", "q4_k", "q4_0"}) {
    convert({at("m.safetensors"), at("m.gguf"), "--type", name}, "written, " + name);
    EXPECT_EQ(name_of(type("m.gguf", "output.weight")), name);
    EXPECT_EQ(name_of(type("m.gguf", "blk.8.channel_mix_value.weight")), name);
    EXPECT_EQ(type("m.gguf", "blk.8.time_mix_g1.weight"), StoredType::f16);
  }
  convert({at("m.safetensors"), at("m.gguf"), "--type", "q4_k_m"}, "written, q4_k_m");
  EXPECT_EQ(type("m.gguf", "output.weight"), StoredType::q6_k);
  EXPECT_EQ(type("m.gguf", "token_embd.weight"), StoredType::q4_k);
  EXPECT_EQ(type("m.gguf", "blk.0.time_mix_value.weight"), StoredType::q6_k);
  EXPECT_EQ(type("m.gguf", "blk.1.time_mix_value.weight"), StoredType::q4_k);
  EXPECT_EQ(type("m.gguf", "blk.3.channel_mix_value.weight"), StoredType::q6_k);
  EXPECT_EQ(type("m.gguf", "blk.8.time_mix_key.weight"), StoredType::q4_k);
  EXPECT_EQ(open_gguf(at("m.gguf")).metadata().at("general.file_type"), "15");
}

TEST_F(Convert, KeepsTypesAndBytesUnlessTold) {
  for (const std::string name : {"q4_k_m", "q8_0", "bf16"}) {
    convert({at("m.safetensors"), at("a.gguf"), "--type", name}, "written, " + name);
    convert({at("a.gguf"), at("b.gguf")}, "written, " + name);
    EXPECT_EQ(read_file(at("a.gguf")), read_file(at("b.gguf"))) << name;
  }
}

TEST_F(Convert, BytesStayBytes) {
  convert({at("m.safetensors"), at("m.gguf")}, "written, bf16");
  const TensorFile file = open_gguf(at("m.gguf"));
  EXPECT_EQ(file.metadata().at("tokenizer.ggml.model"), "rwkv");
  EXPECT_EQ(find_tokenizer(file, 256)->name(), "byte");
}

TEST_F(Convert, AGgufFileWithoutATokenizerStaysSo) {
  ASSERT_EQ(test::run({DELTASANE_PROGRAM, "bench", "weights", "0.1B", at("random.gguf"), "--type",
                       "q8_0"})
                .exit_code,
            0);
  convert({at("random.gguf"), at("m.gguf"), "--type", "q4_0"}, "written, q4_0");
  EXPECT_FALSE(open_gguf(at("m.gguf")).vocabulary());
  const test::Outcome outcome = test::run(
      {DELTASANE_PROGRAM, "convert", at("random.gguf"), at("m.gguf"), "--tokenizer", at("none.json")});
  EXPECT_NE(outcome.exit_code, 0) << outcome.output;
}

// Errors of inputs that count more become smaller, and the sum of all that count with them.
TEST_F(Convert, ImportanceLowersTheErrorThatCounts) {
  replace_file(at("text"), std::string(4000, 'a') + std::string(1000, 'b') + "the end");
  const std::string model = at("m.safetensors"), file = at("importance");
  const test::Outcome scored =
      test::run({DELTASANE_PROGRAM, "score", model, "--text", at("text"), "--importance", file});
  ASSERT_EQ(scored.exit_code, 0) << scored.output;
  convert({model, at("without.gguf"), "--type", "q4_k_m"}, "written");
  convert({model, at("with.gguf"), "--type", "q4_k_m", "--importance", file}, "written, q4_k_m");
  const TensorFile squares = open_safetensors(file), truth = open_safetensors(model);
  const auto values = [](const TensorFile& from, const std::string& name) {
    return from.read(*from.find(name));
  };
  const auto error = [&](const std::string& gguf, const std::string& ours, const std::string& theirs) {
    const Tensor<float> w = values(truth, ours), rounded = values(open_gguf(at(gguf)), theirs);
    const Tensor<float> square = values(squares, ours);
    double sum = 0;
    for (int64_t i = 0; i < w.elements(); ++i)
      sum += double(square[i % 256]) * std::pow(double(w[i]) - double(rounded[i]), 2);
    return sum;
  };
  for (const auto& [ours, theirs] : {std::pair{"blocks.4.ffn.value.weight", "blk.4.channel_mix_value.weight"},
                                     {"blocks.4.ffn.key.weight", "blk.4.channel_mix_key.weight"},
                                     {"head.weight", "output.weight"}})
    EXPECT_LT(error("with.gguf", ours, theirs), error("without.gguf", ours, theirs)) << ours;
  // Rows of the embedding are not multiplied with anything.
  const TensorFile with = open_gguf(at("with.gguf")), without = open_gguf(at("without.gguf"));
  EXPECT_TRUE(std::ranges::equal(with.find("token_embd.weight")->bytes,
                                 without.find("token_embd.weight")->bytes));

  const auto refused = [&](std::vector<std::string> words, std::string_view said) {
    words.insert(words.begin(), {DELTASANE_PROGRAM, "convert"});
    const test::Outcome outcome = test::run(words);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_NE(outcome.output.find(said), std::string::npos) << outcome.output;
  };
  refused({model, at("x.gguf"), "--type", "q8_0", "--importance", file}, "expected --type q4_k");
  refused({model, at("x.pth"), "--importance", file}, "expected OUT to end in .gguf");
  refused({model, at("x.gguf"), "--type", "q4_k", "--importance", model}, "expected");
  Rwkv7Shape wider = shape_;
  wider.channels = 512, wider.heads = 8;
  write_rwkv7_safetensors(at("wide.safetensors"), RandomRwkv7(wider, 1), StoredType::bf16, {});
  refused({at("wide.safetensors"), at("x.gguf"), "--type", "q4_k", "--importance", file},
          "expected 512 numbers for ");
}

TEST_F(Convert, RefusesUnknownTypes) {
  for (const std::string name : {"q3_k", "iq4_nl", "Q3_K", "q4_k_x"}) {
    const test::Outcome outcome = test::run(
        {DELTASANE_PROGRAM, "convert", at("m.safetensors"), at("m.gguf"), "--type", name});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.output.find(cat("q4_k_m, q4_0, found '", name, "'")), std::string::npos)
        << outcome.output;
    EXPECT_FALSE(fs::exists(at("m.gguf")));
  }
}

// The package gguf of PyPI reads what we write, as the numbers that we read.
TEST_F(Convert, ThePackageGgufReadsTheSameNumbers) {
  const char* const named = std::getenv("DELTASANE_PYTHON");
  const auto python = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {named ? named : "python3",
                                 DELTASANE_SOURCE "/test/support/load_published.py"});
    return test::run(words);
  };
  if (python({"imports", "gguf"}).exit_code != 0) GTEST_SKIP() << "this Python has no gguf";
  std::vector<std::string> words{"gguf"};
  std::string expected;
  for (const std::string name : {"f16", "bf16", "q8_0", "q6_k", "q5_k", "q4_k", "q4_0"}) {
    words.push_back(at(name + ".gguf"));
    convert({at("m.safetensors"), words.back(), "--type", name}, "written, " + name);
    const TensorFile file = open_gguf(words.back());
    for (const StoredTensor& tensor : file.tensors())
      expected += cat(tensor.name, " ", crc32(std::as_bytes(file.read(tensor).span())), "\n");
  }
  const test::Outcome outcome = python(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, expected);
}

}  // namespace
}  // namespace deltasane::cli
