// Tokenizers of Hugging Face and of GGUF files: texts with the ids that the library gives.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "format/tokenizer/find_tokenizer.h"
#include "format/tokenizer/gguf_tokenizer_write.h"
#include "format/tokenizer/tokenizer_json.h"
#include "support/scratch.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"

namespace deltasane {
namespace {

using Ids = std::vector<int32_t>;

class TokenizerVectors : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder = fs::path(DELTASANE_SHARED) / "data" / "family" / GetParam();
    if (!fs::exists(folder / "vectors.json"))
      GTEST_SKIP() << folder.string() << " is not here";
    vectors = nlohmann::json::parse(read_file(folder / "vectors.json"));
    ASSERT_EQ(vectors.size(), 140u);
  }
  void expect_ids(const Tokenizer& tokenizer) const {
    for (const auto& vector : vectors) {
      const auto text = vector["text"].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text, SpecialTokens::recognized), vector["ids"].get<Ids>())
          << text;
      if (!vector.contains("with_special")) continue;
      EXPECT_EQ(tokenizer.encode_document(text, SpecialTokens::recognized),
                vector["with_special"].get<Ids>())
          << text;
    }
  }
  fs::path folder;
  nlohmann::json vectors;
};

TEST_P(TokenizerVectors, JsonGivesTheIds) { expect_ids(*open_vocabulary(folder.string())); }

class GgufTokenizerVectors : public TokenizerVectors {};

TEST_P(GgufTokenizerVectors, GivesTheIds) {
  const auto tokenizer = open_vocabulary((folder / "model.gguf").string());
  expect_ids(*tokenizer);
  const auto from_json = open_vocabulary((folder / "tokenizer.json").string());
  for (int32_t id = 0; id < tokenizer->vocabulary_size(); ++id) {
    EXPECT_EQ(tokenizer->bytes_of(id), from_json->bytes_of(id)) << id;
    EXPECT_EQ(tokenizer->special_name(id), from_json->special_name(id)) << id;
  }
}

// The tokenizer.json, written as entries, is what llama.cpp's converter wrote.
TEST_P(GgufTokenizerVectors, IsWrittenOfTheJson) {
  const TensorFile theirs = open_gguf(folder / "model.gguf");
  const auto size = int64_t(theirs.vocabulary()->size());
  const std::vector<GgufEntry> entries =
      gguf_bpe_tokenizer(read_tokenizer_json(folder / "tokenizer.json"), size, "out");
  const test::Scratch scratch;
  write_gguf(scratch.path() / "model.gguf", entries, {}, {});
  const TensorFile ours = open_gguf(scratch.path() / "model.gguf");
  EXPECT_EQ(*ours.vocabulary(), *theirs.vocabulary());
  EXPECT_EQ(*ours.texts("tokenizer.ggml.merges"), *theirs.texts("tokenizer.ggml.merges"));
  EXPECT_EQ(*ours.integers("tokenizer.ggml.token_type"),
            *theirs.integers("tokenizer.ggml.token_type"));
  EXPECT_EQ(ours.metadata().at("tokenizer.ggml.pre"), theirs.metadata().at("tokenizer.ggml.pre"));
  EXPECT_EQ(gguf_tokenizer_of(ours).size(), entries.size());
}

TEST_P(TokenizerVectors, DecodesAndStreams) {
  const auto tokenizer = open_vocabulary(folder.string());
  for (const auto& vector : vectors) {
    const auto ids = vector["ids"].get<Ids>();
    const std::string text = tokenizer->decode(ids, SpecialTokens::recognized);
    if (vector.contains("decoded")) {
      EXPECT_EQ(text, vector["decoded"].get<std::string>());
    }
    // Token by token, characters come out whole.
    Utf8Stream stream;
    std::string streamed;
    for (const int32_t id : ids) {
      streamed += stream.feed(tokenizer->bytes_of(id));
      ASSERT_TRUE(valid_utf8(streamed));
    }
    EXPECT_EQ(stream.finish(), "");
    if (streamed.starts_with(tokenizer->added_in_front()))
      streamed.erase(0, tokenizer->added_in_front().size());
    EXPECT_EQ(streamed, tokenizer->decode(ids));
  }
}

// A user's text never becomes a special token, and comes back as it was.
TEST_P(TokenizerVectors, TextIsText) {
  const auto tokenizer = open_vocabulary(folder.string());
  for (const auto& vector : vectors) {
    const auto text = vector["text"].get<std::string>();
    const Ids ids = tokenizer->encode(text);
    for (const int32_t id : ids) EXPECT_EQ(tokenizer->special_name(id), "") << text;
    // Texts that are not in NFC change once.
    const std::string again = tokenizer->decode(ids);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(again)), again);
    if (!vector.contains("decoded") || text.find('<') != text.npos) continue;
    EXPECT_EQ(again, vector["decoded"].get<std::string>());
  }
}

class LlamaTokenizerVectors : public TokenizerVectors {};

// Its tokens with their merges' ranks as scores, as llama.cpp's converter has them; llama.cpp gives the
// same ids.
TEST_P(LlamaTokenizerVectors, ScoresInGgufGiveTheIds) {
  const BpeDefinition definition = read_tokenizer_json(folder / "tokenizer.json");
  constexpr int32_t normal = 1, control = 3, byte = 6;
  std::vector<std::string> tokens = definition.tokens;
  std::vector<int32_t> token_types(tokens.size(), normal);
  std::vector<float> scores(tokens.size(), -1e6f);
  std::map<std::string, float> ranks;
  for (const auto& [left, right] : definition.merges)
    ranks.emplace(left + right, -float(ranks.size()));
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].starts_with("<0x") && tokens[id].size() == 6) token_types[id] = byte;
    if (ranks.contains(tokens[id])) scores[id] = ranks[tokens[id]];
  }
  for (const AddedToken& added : definition.added) token_types[size_t(added.id)] = control;
  const test::Scratch scratch;
  write_gguf(scratch.path() / "model.gguf",
             {{"tokenizer.ggml.model", std::string("llama")},
              {std::string("tokenizer.ggml.tokens"), tokens},
              {"tokenizer.ggml.scores", scores},
              {"tokenizer.ggml.token_type", token_types},
              {"tokenizer.ggml.bos_token_id", uint32_t(definition.start.at(0))}},
             {}, {});
  expect_ids(*open_vocabulary(scratch.path() / "model.gguf"));
}

std::string name_of_folder(const testing::TestParamInfo<const char*>& which) {
  return which.param;
}

INSTANTIATE_TEST_SUITE_P(Family, TokenizerVectors,
                         testing::Values("tokenizer_qwen3_5", "tokenizer_cl100k",
                                         "tokenizer_llama", "gguf_qwen35", "gguf_qwen35moe",
                                         "gguf_qwen3next", "gguf_kimi_linear"),
                         name_of_folder);
INSTANTIATE_TEST_SUITE_P(Family, LlamaTokenizerVectors, testing::Values("tokenizer_llama"),
                         name_of_folder);
INSTANTIATE_TEST_SUITE_P(Family, GgufTokenizerVectors,
                         testing::Values("gguf_qwen35", "gguf_qwen35moe", "gguf_qwen3next",
                                         "gguf_kimi_linear"),
                         name_of_folder);

}  // namespace
}  // namespace deltasane
