// The published World vocabulary: known encodings and known facts about it.
#include <gtest/gtest.h>

#include <memory>

#include "base/cat.h"
#include "text/utf8.h"
#include "text/vocabulary/fixture_vocabulary.h"
#include "text/vocabulary/gguf_tokens.h"
#include "text/world_tokenizer.h"

namespace deltasane {
namespace {

using Ids = std::vector<int32_t>;

class WorldVectors : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path path = fs::path(DELTASANE_SHARED) / "data" / "rwkv_vocab_v20230424.txt";
    if (!fs::exists(path)) GTEST_SKIP() << "the World vocabulary is not at " << path;
    world = std::make_unique<WorldTokenizer>(world_from_file(path));
  }
  std::unique_ptr<WorldTokenizer> world;
};

TEST_F(WorldVectors, EncodesAsTheReferenceDoes) {
  const std::string chat = "User: hi\n\nAssistant:";
  const Ids chat_ids{24281, 59, 4571, 261, 5585, 41693, 59};
  const auto after_chat = [&](Ids more) {
    Ids ids = chat_ids;
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  };
  const std::vector<std::pair<std::string, Ids>> vectors{
      {"The Eiffel tower is in the city of",
       {6699, 304, 25740, 109, 39990, 4600, 4596, 22590, 30449, 4706}},
      {chat, chat_ids},
      {chat + " <think", after_chat({295, 35762})},
      {chat + " <think>\n</think", after_chat({295, 35762, 63, 11, 754, 35762})},
      {chat + " <think></think", after_chat({295, 35762, 5439, 35762})},
      {"\n\n\n", {3328}},
      {"  \n\n  ", {3339, 3331}},
      {"12345 3.14", {632, 654, 54, 286, 47, 634}},
      {"你好，世界", {10464, 11685, 19137, 10267, 14610}},
      {"😀", {3319, 153, 129}},
      {"\xFF\xFE\x80", {256, 255, 129}},
      {" Assistant:", {58683, 59}},
      {std::string("\xC3\xBF\0", 3), {2525, 1}},
      {"\n", {11}},
      {" ", {33}},
      {"\xC2\x80", {2423}},
      {std::string(128, ' '), {65529}}};
  for (const auto& [text, ids] : vectors) {
    EXPECT_EQ(world->encode(text), ids) << text;
    EXPECT_EQ(world->decode(ids), text);
  }
}

TEST_F(WorldVectors, HasTheKnownShape) {
  EXPECT_EQ(world->vocabulary_size(), 65530);
  size_t longest = 0;
  int not_text = 0;
  for (int32_t id = 1; id < world->vocabulary_size(); ++id) {
    longest = std::max(longest, world->bytes_of(id).size());
    not_text += !valid_utf8(world->bytes_of(id));
    ASSERT_EQ(world->encode(world->bytes_of(id)), Ids{id});
  }
  EXPECT_EQ(longest, 128u);
  EXPECT_EQ(not_text, 486);
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(world->bytes_of(byte + 1), std::string(1, char(byte)));
}

TEST_F(WorldVectors, NoTextIsSpecial) {
  for (const std::string text : {"<|endoftext|>", "<s>", "[PAD65530]"}) {
    const Ids ids = world->encode(text);
    EXPECT_GT(ids.size(), 1u);
    for (const int32_t id : ids) EXPECT_TRUE(id > 0 && id < 65530) << text;
    EXPECT_EQ(world->decode(ids), text);
  }
}

TEST_F(WorldVectors, AgreesWithTheReferenceTokenizer) {
  const test::ReferenceTokenizer reference(*world);
  Random random(3);
  for (int round = 0; round < 500; ++round) {
    const std::string text = test::random_text(random, *world, 2000);
    const Ids ids = world->encode(text);
    ASSERT_EQ(ids, reference.encode(text)) << round;
    ASSERT_EQ(world->decode(ids), text) << round;
  }
}

TEST_F(WorldVectors, RoundTripsThroughGguf) {
  std::vector<std::string> tokens{"<s>"};
  for (int32_t id = 1; id < 65536; ++id)
    tokens.push_back(id < 65530 ? gguf_escaped(world->bytes_of(id)) : cat("[PAD", id, "]"));
  const WorldTokenizer again = world_from_gguf_tokens(tokens);
  EXPECT_EQ(again.vocabulary_size(), 65536);
  for (int32_t id = 0; id < 65536; ++id) ASSERT_EQ(again.bytes_of(id), world->bytes_of(id)) << id;
}

}  // namespace
}  // namespace deltasane
