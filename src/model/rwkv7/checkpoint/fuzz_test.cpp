// Seeded damage to small files of every kind: each reader reads or refuses, and never breaks.
#include <gtest/gtest.h>

#include "format/npy/fixture_indexed.h"
#include "format/pth/fixture_pth.h"
#include "format/fixture_tensor_file.h"
#include "format/tokenizer/gguf_tokenizer_write.h"
#include "model/rwkv7/checkpoint/fixture.h"
#include "format/gguf/gguf.h"
#include "format/npy/indexed_tokens.h"
#include "format/json_walk.h"
#include "format/npy/npy.h"
#include "format/pth/pickle.h"
#include "format/pth/pth.h"
#include "format/rwkvcpp.h"
#include "format/safetensors/safetensors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

constexpr int rounds = 4000;

// The whole way: container, names, values.
auto checkpoint_reader(TensorFile (*reader)(std::span<const std::byte>, const std::string&)) {
  return [reader](std::span<const std::byte> bytes) {
    const Rwkv7Checkpoint checkpoint(reader(bytes, "file"));
    for (const std::string& name : checkpoint.names())
      if (checkpoint.type(name) != StoredType::foreign) checkpoint.read(name);
    checkpoint.identity();
    checkpoint.validate();
  };
}

Rwkv7Shape tiny() {
  return {.layers = 2,
          .channels = 4,
          .heads = 2,
          .head_size = 2,
          .feed_forward = 4,
          .vocabulary = 3,
          .rank_w = 1,
          .rank_a = 1,
          .rank_v = 1,
          .rank_g = 1};
}

std::string small_pth() {
  test::Pickle pickle;
  pickle.empty_ordered_dict().raw("(");
  const std::string storage(96, 'x');
  for (int i = 0; i < 4; ++i)
    pickle.text(cat("t", i)).tensor("FloatStorage", "0", 24, i, {2, 3, 2}, {1, 2, 6});
  return test::pth_of(pickle.raw("u").end(), {storage});
}

TEST(Fuzz, Safetensors) {
  const test::Scratch scratch;
  write_rwkv7_safetensors(scratch.path() / "m", test::SmallModel(tiny()), StoredType::bf16, {});
  const std::string good = read_file(scratch.path() / "m");
  test::expect_mutations_survived(good, 1, rounds, checkpoint_reader(read_safetensors));
}

TEST(Fuzz, SafetensorsSmall) {
  const std::string good =
      test::Bytes()
          .sized(R"({"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"__metadata__":{}})")
          .text("12345678")
          .string();
  test::expect_mutations_survived(good, 2, 5 * rounds, test::read_all(read_safetensors));
}

TEST(Fuzz, Gguf) {
  const test::Scratch scratch;
  write_rwkv7_gguf(scratch.path() / "m", test::SmallModel(tiny()),
                   {.types = StoredType::f16,
                    .tokenizer = gguf_rwkv_tokenizer({"<s>"}, tiny().vocabulary, "m")});
  const std::string good = read_file(scratch.path() / "m");
  test::expect_mutations_survived(good, 3, rounds, checkpoint_reader(read_gguf));
}

TEST(Fuzz, Pth) {
  test::expect_mutations_survived(small_pth(), 4, rounds, test::read_all(read_pth));
}

TEST(Fuzz, Pickle) {
  test::Pickle pickle;
  pickle.empty_ordered_dict().raw("(").text("w").tensor("FloatStorage", "0", 6, 0, {2, 3}, {3, 1});
  test::expect_mutations_survived(
      pickle.raw("u}Nb").end(), 5, 5 * rounds,
      [](std::span<const std::byte> bytes) { read_pickle(bytes, "file", {.values = 1000}); });
}

TEST(Fuzz, Rwkvcpp) {
  test::Bytes good;
  good.number(uint32_t{0x67676d66});
  for (const int32_t number : {101, 3, 4, 2, 0}) good.number(number);
  for (int i = 0; i < 6; ++i) {
    good.number(int32_t{2}).number(int32_t{2}).number(int32_t{i % 2});
    good.number(int32_t{2})
        .number(int32_t{2})
        .text(cat("t", i))
        .text(std::string(i % 2 ? 8 : 16, 'x'));
  }
  test::expect_mutations_survived(good.string(), 6, 5 * rounds, test::read_all(read_rwkvcpp));
}

TEST(Fuzz, Npy) {
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n";
  test::Bytes good;
  good.text("\x93NUMPY\x01").number(uint8_t{0}).number(uint16_t(header.size())).text(header);
  good.text(std::string(24, 'x'));
  test::expect_mutations_survived(good.string(), 7, 5 * rounds,
                                  [](std::span<const std::byte> bytes) {
                                    const NpyArray array = read_npy(bytes, "file");
                                    std::vector<float> out(size_t(array.shape.elements()));
                                    array.read(0, out);
                                  });
}

TEST(Fuzz, IndexedTokens) {
  const test::IndexedFiles good = test::indexed_files({{1, 2, 3}, {}, {4, 5}});
  test::expect_mutations_survived(good.index, 9, 5 * rounds, [&](std::span<const std::byte> bytes) {
    const IndexedTokens opened(bytes, "file.idx", std::as_bytes(std::span(good.tokens)),
                               "file.bin");
    for (int64_t i = 0; i < opened.items(); ++i) {
      std::vector<int32_t> out(size_t(opened.item(i).count));
      opened.tokens().read(opened.item(i).first, out);
    }
  });
}

TEST(Fuzz, Json) {
  const std::string good = R"({"a":[1,-2.5e3,"x\u00e9",{"b":null}],"c":{"d":true}})";
  test::expect_mutations_survived(good, 8, 5 * rounds, [](std::span<const std::byte> bytes) {
    walk_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "file", {},
              [](const auto&, const JsonValue&) {});
  });
}

}  // namespace
}  // namespace deltasane
