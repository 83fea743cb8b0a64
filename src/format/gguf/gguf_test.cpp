#include "format/gguf/gguf.h"

#include <gtest/gtest.h>

#include "format/fixture_tensor_file.h"
#include "support/fixture_bytes.h"
#include "format/gguf/gguf_types.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::Bytes;

TensorFile gguf_from(std::string_view bytes) {
  return read_gguf(std::as_bytes(std::span(bytes)), "file");
}

Bytes header(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
  Bytes bytes;
  bytes.number(gguf_magic).number(version).number(tensors).number(entries);
  return bytes;
}

Bytes& entry(Bytes& bytes, std::string_view key, uint32_t kind) {
  return bytes.sized(key).number(kind);
}

Bytes& record(Bytes& bytes, std::string_view name, const std::vector<uint64_t>& sizes,
              uint32_t type, uint64_t offset) {
  bytes.sized(name).number(uint32_t(sizes.size()));
  for (const uint64_t size : sizes) bytes.number(size);
  return bytes.number(type).number(offset);
}

std::string good_gguf_file() {
  Bytes bytes = header(3, 6);
  entry(bytes, "types", 9).number(uint32_t{5}).number(uint64_t{2}).number(1).number(-3);
  entry(bytes, "merges", 9).number(uint32_t{8}).number(uint64_t{1}).sized("a b");
  entry(bytes, "general.alignment", 4).number(uint32_t{64});
  entry(bytes, "f", 6).number(0.1f);
  entry(bytes, "tokenizer.ggml.tokens", 9).number(uint32_t{8}).number(uint64_t{2});
  bytes.sized("<s>").sized("\\n");
  entry(bytes, "text", 8).sized("hello");
  record(bytes, "a", {3, 2}, 0, 0);
  record(bytes, "q", {32}, 8, 64);
  record(bytes, "k", {256}, 21, 128);
  bytes.pad(64).floats({1, 2, 3, 4, 5, 6}).pad(64);
  bytes.number(f16(0.5f).bits).text(std::string(32, '\2')).pad(64).text(std::string(110, 'x'));
  return bytes.string();
}

TEST(Gguf, ReadsEntriesVocabularyAndTensors) {
  const std::string bytes = good_gguf_file();
  const TensorFile file = gguf_from(bytes);
  EXPECT_EQ(file.metadata().at("f"), "0.1");
  EXPECT_EQ(file.metadata().at("text"), "hello");
  EXPECT_EQ(file.metadata().at("tokenizer.ggml.tokens"), "[string x 2]");
  EXPECT_EQ(*file.vocabulary(), (std::vector<std::string>{"<s>", "\\n"}));
  EXPECT_EQ(*file.integers("types"), (std::vector<int64_t>{1, -3}));
  EXPECT_EQ(*file.texts("merges"), std::vector<std::string>{"a b"});
  EXPECT_EQ(file.texts("types"), nullptr);
  EXPECT_EQ(file.integers("gone"), nullptr);
  EXPECT_EQ(file.find("a")->shape, (Shape{2, 3}));
  EXPECT_EQ(file.read(*file.find("a"))[5], 6.0f);
  EXPECT_EQ(file.read(*file.find("q"))[31], 1.0f);
  EXPECT_EQ(file.find("k")->type, StoredType::foreign);
  EXPECT_FAULT(file.read(*file.find("k")), Fault::file, "found IQ3_S");
}

TEST(Gguf, ReadsEveryKindOfEntry) {
  Bytes bytes = header(0, 11, 2);
  entry(bytes, "u8", 0).number(uint8_t{200});
  entry(bytes, "i8", 1).number(int8_t{-2});
  entry(bytes, "u16", 2).number(uint16_t{60000});
  entry(bytes, "i16", 3).number(int16_t{-3});
  entry(bytes, "i32", 5).number(int32_t{-5});
  entry(bytes, "bool", 7).number(uint8_t{1});
  entry(bytes, "u64", 10).number(~uint64_t{0});
  entry(bytes, "i64", 11).number(int64_t{-11});
  entry(bytes, "f64", 12).number(0.1);
  entry(bytes, "numbers", 9).number(uint32_t{5}).number(uint64_t{2}).number(uint64_t{0});
  entry(bytes, "texts", 9).number(uint32_t{8}).number(uint64_t{1}).sized("x");
  const Metadata expected{{"u8", "200"},
                          {"i8", "-2"},
                          {"u16", "60000"},
                          {"i16", "-3"},
                          {"i32", "-5"},
                          {"bool", "true"},
                          {"i64", "-11"},
                          {"f64", "0.1"},
                          {"u64", "18446744073709551615"},
                          {"numbers", "[i32 x 2]"},
                          {"texts", "[string x 1]"}};
  EXPECT_EQ(gguf_from(bytes.string()).metadata(), expected);
}

TEST(Gguf, RejectsAbsurdCountsAndSizes) {
  const auto rejected = [](const Bytes& bytes, std::string_view why) {
    EXPECT_FAULT(gguf_from(bytes.string()), Fault::file, why);
  };
  constexpr uint64_t huge = ~uint64_t{0};
  rejected(header(huge, 0), "at most 100000 tensors");
  rejected(header(0, huge), "at most 100000 tensors");
  rejected(header(5, 0), "tensor name");
  rejected(header(0, 0, 1), "found version 1");
  rejected(header(0, 0, 0x03000000), "big-endian");
  rejected(Bytes().text("GGML"), "expected a GGUF file");
  Bytes bytes = header(0, 1);
  rejected(Bytes(bytes).number(huge), "at most 65535 bytes");
  bytes.sized("k");
  rejected(Bytes(bytes).number(uint32_t{13}), "below 13");
  rejected(Bytes(bytes).number(uint32_t{8}).number(huge), "at most 16777216 bytes");
  rejected(Bytes(bytes).number(uint32_t{9}).number(uint32_t{5}).number(huge), " elements, found ");
  rejected(Bytes(bytes).number(uint32_t{9}).number(uint32_t{8}).number(huge), " elements, found ");
  rejected(Bytes(bytes).number(uint32_t{9}).number(uint32_t{9}).number(uint64_t{1}), "no array");
  Bytes twice = header(0, 2);
  for (int i = 0; i < 2; ++i) entry(twice, "k", 0).number(uint8_t{1});
  rejected(twice, "found it twice");
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 21}) {
    Bytes odd = header(0, 1);
    rejected(entry(odd, "general.alignment", 4).number(alignment), "power of two");
  }
}

TEST(Gguf, RejectsTensorsThatDoNotFit) {
  const auto rejected = [](const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset,
                           std::string_view why) {
    Bytes bytes = header(1, 0);
    record(bytes, "w", sizes, type, offset).pad(32).text(std::string(64, 'x'));
    EXPECT_FAULT(gguf_from(bytes.string()), Fault::file, why);
  };
  constexpr uint64_t huge = ~uint64_t{0};
  rejected({17}, 0, 0, "expected 68 bytes, found 64");
  rejected({8}, 0, 32, "where the records end");  // a hole in front
  rejected({8}, 0, 0, "32 bytes more");           // a hole at the end
  rejected({15}, 0, 0, "expected a zero");        // padding that is none
  rejected({16}, 0, 3, "multiple of 32");
  rejected({16}, 0, huge - 31, "does not fit in 64 bits");
  rejected({16}, 12, 1 << 20, "whole blocks of 256");
  rejected({256}, 12, 0, "expected 144 bytes, found 64");
  rejected({256}, 21, 0, "expected 110 bytes, found 64");
  rejected({huge}, 0, 0, "fewer than 2^60");
  rejected({1u << 30, 1u << 30, 1u << 30, 4}, 0, 0, "fewer than 2^60");
  rejected({0, huge >> 1, huge >> 1}, 0, 0, "fewer than 2^60");
  rejected({33}, 8, 0, "blocks of 32");
  rejected({}, 8, 0, "blocks of 32");
  rejected({1, 1, 1, 1, 1}, 0, 0, "at most 4 dimensions");
  Bytes overlap = header(2, 0);
  record(overlap, "a", {16}, 0, 0);
  record(overlap, "b", {8}, 0, 32).pad(32).text(std::string(64, 'x'));
  EXPECT_FAULT(gguf_from(overlap.string()), Fault::file, "where tensor 'a' ends");
  Bytes hole = header(2, 0);
  record(hole, "a", {8}, 1, 0);  // as f16; with one bit more it is f32 and fills the place
  record(hole, "b", {8}, 0, 64).pad(32).text(std::string(96, 'x'));
  EXPECT_FAULT(gguf_from(hole.string()), Fault::file, "where tensor 'a' ends, found byte 160");
  Bytes twice = header(2, 0);
  record(twice, "a", {8}, 0, 0);
  record(twice, "a", {8}, 0, 32).pad(32).text(std::string(64, 'x'));
  EXPECT_FAULT(gguf_from(twice.string()), Fault::file, "found two");
}

TEST(Gguf, RejectsEveryCutOfTheHeaderAndSurvivesEveryFlip) {
  const std::string bytes = good_gguf_file();
  test::expect_every_cut_rejected(bytes, test::read_all(read_gguf));
  test::expect_every_flip_survived(bytes, bytes.size(), test::read_all(read_gguf));
}

TEST(Gguf, RoundTrips) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "weights";
  const std::vector<PlannedTensor> plan{{"matrix", StoredType::q8_0, {2, 64}},
                                        {"vector", StoredType::f32, {5}},
                                        {"bf", StoredType::bf16, {6, 1, 1, 3}}};
  const std::vector<GgufEntry> entries{
      {"general.architecture", std::string("a model")},
      {"u", uint32_t{7}},
      {"i", int32_t{-7}},
      {"f", 1e-5f},
      {"b", false},
      {std::string(gguf_tokens_key), std::vector<std::string>{"<s>", "a b"}},
      {"types", std::vector<int32_t>{3, 1}}};
  write_gguf(path, entries, plan, [&](const PlannedTensor& tensor, const Sink& sink) {
    const std::string bytes(tensor.bytes(), tensor.name[0]);
    sink(std::as_bytes(std::span(bytes)));
  });
  const TensorFile file = open_gguf(path);
  EXPECT_EQ(file.metadata().at("u"), "7");
  EXPECT_EQ(file.metadata().at("i"), "-7");
  EXPECT_EQ(file.metadata().at("f"), "1e-05");
  EXPECT_EQ(file.metadata().at("b"), "false");
  EXPECT_EQ(file.metadata().at("types"), "[i32 x 2]");
  EXPECT_EQ(*file.vocabulary(), (std::vector<std::string>{"<s>", "a b"}));
  for (size_t i = 0; i < plan.size(); ++i) {
    const StoredTensor& found = file.tensors()[i];
    EXPECT_EQ(found.name, plan[i].name);
    EXPECT_EQ(found.type, plan[i].type);
    EXPECT_EQ(found.shape, plan[i].shape);
    EXPECT_EQ(found.offset % 32, 0u);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(found.bytes.data()), found.bytes.size()),
              std::string(plan[i].bytes(), plan[i].name[0]));
  }
}

}  // namespace
}  // namespace deltasane
