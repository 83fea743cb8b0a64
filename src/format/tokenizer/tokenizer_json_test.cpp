#include "format/tokenizer/tokenizer_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "format/tokenizer/find_tokenizer.h"
#include "format/tokenizer/tokenizer_json_write.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/bpe/fixture_bpe.h"
#include "text/utf8.h"

namespace deltasane {
namespace {

using Alphabet = BpeDefinition::Alphabet;
using nlohmann::json;

json small_tokenizer(Alphabet alphabet = Alphabet::bytes) {
  Random random(41);
  return json::parse(tokenizer_json_of(test::random_bpe(random, alphabet, 30)));
}

BpeTokenizer tokenizer_of(const json& root) {
  return BpeTokenizer(parse_tokenizer_json(root.dump(), "t.json"));
}

TEST(TokenizerJson, ReadsWhatTheDefinitionSays) {
  for (const Alphabet alphabet : {Alphabet::bytes, Alphabet::characters}) {
    Random random(42);
    const BpeDefinition definition = test::random_bpe(random, alphabet, 40);
    const BpeTokenizer own(definition);
    const BpeTokenizer read(parse_tokenizer_json(tokenizer_json_of(definition), "t.json"));
    EXPECT_EQ(read.vocabulary_size(), own.vocabulary_size());
    for (const std::string text : {"abc  ba\u00E9 <think>", "<|end|>", "e\u0301", "", "\xFF\n"})
      for (const auto special : {SpecialTokens::as_text, SpecialTokens::recognized}) {
        EXPECT_EQ(read.encode(text, special), own.encode(text, special)) << text;
        EXPECT_EQ(read.decode(read.encode(text, special), special),
                  own.decode(own.encode(text, special), special));
      }
  }
}

TEST(TokenizerJson, MergesMayBeTexts) {
  json root = small_tokenizer();
  const auto expected = tokenizer_of(root).encode("abcab  ca");
  for (json& merge : root["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  EXPECT_EQ(tokenizer_of(root).encode("abcab  ca"), expected);
}

TEST(TokenizerJson, PutsSpecialTokensInFront) {
  json root = small_tokenizer();
  const int id = root["added_tokens"][0]["id"];
  const json special{{"SpecialToken", {{"id", "<|end|>"}, {"type_id", 0}}}};
  const json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  root["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special, text}},
      {"special_tokens", {{"<|end|>", {{"id", "<|end|>"}, {"ids", {id}}, {"tokens", {}}}}}}};
  EXPECT_EQ(tokenizer_of(root).encode_document("")[0], id);
  EXPECT_TRUE(tokenizer_of(root).encode("").empty());
  root["post_processor"]["single"] = {text, special};
  EXPECT_FAULT(tokenizer_of(root), Fault::file, "found '<|end|>' after it");
}

TEST(TokenizerJson, RejectsWhatItDoesNotKnowByName) {
  const auto rejected = [](const char* pointer, const json& value, std::string_view why,
                           Alphabet alphabet = Alphabet::bytes) {
    json root = small_tokenizer(alphabet);
    root[json::json_pointer(pointer)] = value;
    EXPECT_FAULT(tokenizer_of(root), Fault::file, why);
  };
  rejected("/model/type", "Unigram", "model.type: expected BPE, found 'Unigram'");
  rejected("/model/type", 7, "model.type: expected text, found number");
  rejected("/model", nullptr, "model.type");
  rejected("/model/dropout", 0.1, "model.dropout");
  rejected("/model/continuing_subword_prefix", "##", "continuing_subword_prefix");
  rejected("/model/end_of_word_suffix", "</w>", "end_of_word_suffix");
  rejected("/model/byte_fallback", true, "model.byte_fallback");
  rejected("/model/byte_fallback", false, "model.byte_fallback", Alphabet::characters);
  rejected("/model/vocab", json::array(), "model.vocab: expected an object");
  rejected("/model/vocab/a", -1, "expected an id below");
  rejected("/model/vocab/a", 1 << 30, "expected an id below");
  rejected("/model/vocab/a", 98.5, "expected an id below");
  rejected("/model/vocab/a", 98, "id 98: expected one token");
  rejected("/model/merges", json::array({"abc"}), "merge 0: expected two tokens");
  rejected("/model/merges", json::array({"a b c"}), "merge 0: expected two tokens");
  rejected("/model/merges", json::array({{"a", "b", "c"}}), "merge 0: expected two tokens");
  rejected("/model/merges", json::array({json::array({"a", "zzz"})}), "tokens of the vocabulary");
  rejected("/normalizer/type", "Lowercase", "found 'Lowercase'");
  rejected("/normalizer/type", "NFKC", "found 'NFKC'");
  rejected("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\w+", "found '\\x5cw+'");
  rejected("/pre_tokenizer/pretokenizers/0/behavior", "Removed", "Isolated");
  rejected("/pre_tokenizer/pretokenizers/0/type", "Whitespace", "found 'Whitespace'");
  rejected("/pre_tokenizer/pretokenizers/1/use_regex", true, "use_regex");
  rejected("/decoder/type", "WordPiece", "WordPiece");
  rejected("/post_processor", {{"type", "BertProcessing"}}, "BertProcessing");
  rejected("/added_tokens/0/single_word", true, "single_word");
  rejected("/added_tokens/0/id", 97, "an id of its own");
  EXPECT_FAULT(tokenizer_of(json::array()), Fault::file, "expected a JSON object");
  EXPECT_FAULT(parse_tokenizer_json("{\"model\":{},\"model\":{}}", "t.json"), Fault::file,
               "found it twice");
  EXPECT_FAULT(parse_tokenizer_json(std::string(100'000, '['), "t.json"), Fault::file, "deep");
}

TEST(TokenizerJson, FilesBesideItSayHowTextsEndAndHowToChat) {
  const test::Scratch scratch;
  const auto write = [&](const char* name, const std::string& text) {
    AtomicFile file(scratch.path() / name);
    file.write(text);
    file.commit();
  };
  const json root = small_tokenizer();
  const int end = root["added_tokens"][0]["id"], start = root["added_tokens"][1]["id"];
  write("tokenizer.json", root.dump());
  EXPECT_EQ(open_vocabulary(scratch.path().string())->end_of_document(), std::nullopt);
  write("tokenizer_config.json",
        json{{"eos_token", {{"content", "<|end|>"}}}, {"chat_template", "first"}}.dump());
  write("generation_config.json", json{{"eos_token_id", {start}}}.dump());
  const auto tokenizer = open_vocabulary((scratch.path() / "tokenizer.json").string());
  EXPECT_EQ(tokenizer->end_of_document(), end);
  EXPECT_TRUE(tokenizer->ends_text(end) && tokenizer->ends_text(start));
  EXPECT_FALSE(tokenizer->ends_text('a'));
  EXPECT_EQ(tokenizer->chat_template(), "first");
  write("chat_template.jinja", "second");
  EXPECT_EQ(open_vocabulary(scratch.path().string())->chat_template(), "second");
  write("generation_config.json", json{{"eos_token_id", 1 << 19}}.dump());
  EXPECT_FAULT(open_vocabulary(scratch.path().string()), Fault::file, "end of text");
  EXPECT_FAULT(open_vocabulary((scratch.path() / "gone.json").string()), Fault::file, "gone.json");
}

// Every input is parsed or rejected with an Error.
TEST(TokenizerJson, SurvivesDamage) {
  Random random(43);
  const std::string frequent = "{}[]\",:\\u0 9-eE\xE2\xFF";
  int read = 0;
  for (int round = 0; round < 2500; ++round) {
    std::string text =
        small_tokenizer(round % 2 ? Alphabet::bytes : Alphabet::characters).dump();
    for (uint64_t edits = 1 + random.below(3); edits > 0; --edits) {
      const size_t at = random.below(text.size()), size = 1 + random.below(20);
      const uint64_t kind = random.below(4);
      if (kind == 0)
        text.erase(at, size);
      else if (kind == 1)
        text.insert(at, text.substr(random.below(text.size()), size));
      else if (kind == 2)
        text[at] = frequent[random.below(frequent.size())];
      else
        text[at] = char(random.below(128));
    }
    try {
      const BpeTokenizer tokenizer(parse_tokenizer_json(text, "fuzzed"));
      tokenizer.decode(tokenizer.encode("abc  <|end|>\u00E9\xFF<think>"));
      ++read;
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::file);
      ASSERT_TRUE(std::string_view(error.what()).starts_with("fuzzed: ")) << error.what();
      ASSERT_TRUE(valid_utf8(error.what()));
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace deltasane
