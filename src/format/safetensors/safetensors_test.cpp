#include "format/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include "format/fixture_tensor_file.h"
#include "format/open.h"
#include "support/fixture_bytes.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

std::string safetensors_file_of(std::string_view header, std::string_view tensors) {
  return test::Bytes().sized(header).text(tensors).string();
}

TensorFile safetensors_from(std::string_view bytes) {
  return read_safetensors(std::as_bytes(std::span(bytes)), "file");
}

std::string good_safetensors_file() {
  test::Bytes tensors;
  tensors.number(1.0f).number(2.0f).number(bf16(3).bits).number(bf16(4).bits).number(bf16(5).bits);
  tensors.number(uint8_t{7});
  return safetensors_file_of(
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]},)"
      R"("e":{"dtype":"F32","shape":[0,5],"data_offsets":[8,8]},)"
      R"("s":{"dtype":"U8","shape":[],"data_offsets":[14,15]}}   )",
      tensors.string());
}

TEST(Safetensors, ReadsNamesTypesShapesAndValues) {
  const std::string bytes = good_safetensors_file();
  const TensorFile file = safetensors_from(bytes);
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].shape, (Shape{1, 2}));
  EXPECT_EQ(file.read(*file.find("a"))[1], 2.0f);
  EXPECT_EQ(file.read(*file.find("b"))[2], 5.0f);
  EXPECT_EQ(file.read(*file.find("e")).elements(), 0);
  EXPECT_EQ(file.read(*file.find("s"))[0], 7.0f);
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_EQ(file.metadata().at("k"), "v");
}

TEST(Safetensors, RejectsWhatTheFormatForbids) {
  const auto rejected = [](std::string_view header, std::string_view tensors,
                           std::string_view why) {
    EXPECT_FAULT(safetensors_from(safetensors_file_of(header, tensors)), Fault::file, why);
  };
  rejected(R"([1])", "", "begin with '{'");
  rejected(R"( {})", "", "begin with '{'");
  rejected(R"({"a":1})", "", "tensor 'a' in the header");
  rejected(R"({"a":{"dtype":"F32","shape":[1]}})", "", "data_offsets of two numbers");
  rejected(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234", "expected a shape");
  rejected(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "1234", "expected a dtype");
  rejected(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "1234", "found 'F99'");
  rejected(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", "1234", "only dtype");
  rejected(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234", "not negative");
  rejected(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "1234", "not negative");
  rejected(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", "1234",
           "list of numbers");
  rejected(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", "1234", "list of numbers");
  rejected(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234", "found 4 bytes");
  rejected(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", "1234", "end by 4");
  rejected(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678", "offset 0");
  rejected(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234", "offset 0");
  rejected(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "12345", "1 bytes more");
  rejected(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", "1", "4 bits");
  rejected(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]}})", "1234",
           "at most 6");
  rejected(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
           R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
           "12", "twice");
  rejected(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1", "twice");
  rejected(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           "123", "tensor 'b'");
  rejected(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
           R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
           "123", "tensor 'b'");
  rejected(R"({"__metadata__":{"k":1}})", "", "object of strings");
  rejected(R"({"__metadata__":[]})", "", "object of strings");
  rejected(R"({"__metadata__":{"k":{"x":"y"}}})", "", "object of strings");
  rejected(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}} x)", "1", "expected JSON");
  rejected(std::string_view("{}\0hidden", 9), "", "zero byte");
  rejected("{\"\xff\":1}", "", "expected JSON");
}

TEST(Safetensors, RejectsSizesThatWrap) {
  for (const char* const shape :
       {"[4194305,4194305,211106198978564]", "[18446744073709551615,2]", "[9223372036854775807]",
        "[0,9223372036854775807,9223372036854775807]", "[1e3]", "[99999999999999999999999]"})
    EXPECT_FAULT(safetensors_from(safetensors_file_of(
                     cat(R"({"a":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":[0,16]}})"),
                     std::string(16, 'x'))),
                 Fault::file, "file: ");
}

TEST(Safetensors, RejectsAbsurdHeadersAtOnce) {
  EXPECT_FAULT(safetensors_from(test::Bytes().number(~uint64_t{0}).text("{}").string()),
               Fault::file, "at most 100000000");
  EXPECT_FAULT(safetensors_from(test::Bytes().number(uint64_t{100'000'001}).text("{}").string()),
               Fault::file, "at most 100000000");
  EXPECT_FAULT(safetensors_from(test::Bytes().number(uint64_t{99}).text("{}").string()),
               Fault::file, "expected 99 bytes, found 2");
  EXPECT_FAULT(safetensors_from(safetensors_file_of("{\"a\":" + std::string(1'000'000, '['), "")),
               Fault::file, "tensor 'a'");
  EXPECT_FAULT(
      safetensors_from(safetensors_file_of("{\"a\":" + std::string(100'000, '9') + "}", "")),
      Fault::file, "file");
  std::string notes = R"({"__metadata__":{)";
  for (int i = 0; i < 200'001; ++i) notes += cat("\"", i, "\":\"\",");
  EXPECT_FAULT(safetensors_from(safetensors_file_of(notes, "")), Fault::file,
               "at most 200000 keys");
  std::string many = "{";
  for (int i = 0; i < 100'001; ++i)
    many += cat("\"", i, R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)");
  many.back() = '}';
  EXPECT_FAULT(safetensors_from(safetensors_file_of(many, "")), Fault::file,
               "at most 100000 tensors");
}

TEST(Safetensors, ListsUnsupportedTypesAndNamesThemOnRead) {
  const std::string bytes =
      safetensors_file_of(R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", "12");
  const TensorFile file = safetensors_from(bytes);
  EXPECT_EQ(file.tensors()[0].type, StoredType::foreign);
  EXPECT_FAULT(file.read(file.tensors()[0]), Fault::file, "found F8_E4M3");
}

TEST(Safetensors, RejectsEveryCutAndSurvivesEveryFlip) {
  const std::string bytes = good_safetensors_file();
  test::expect_every_cut_rejected(bytes, test::read_all(read_safetensors));
  test::expect_every_flip_survived(bytes, bytes.size(), test::read_all(read_safetensors));
}

TEST(Safetensors, RoundTrips) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "weights";
  const std::vector<PlannedTensor> plan{{"small", StoredType::u8, {3}},
                                        {"half", StoredType::f16, {2, 2}},
                                        {"wide", StoredType::f32, {2}},
                                        {"empty", StoredType::f32, {0, 4}},
                                        {"one \"quoted\"\n", StoredType::bf16, {}}};
  const auto content = [](const PlannedTensor& tensor) {
    std::string bytes(tensor.bytes(), '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = char(tensor.name[0] + i);
    return bytes;
  };
  const Metadata metadata{{"sane.alpha", "3"}, {"text", "line\nbreak \xc3\xa9"}};
  write_safetensors(path, plan, metadata, [&](const PlannedTensor& tensor, const Sink& sink) {
    for (const char c : content(tensor)) sink(std::as_bytes(std::span(&c, 1)));
  });
  const TensorFile file = open_safetensors(path);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.tensors().size(), plan.size());
  for (const PlannedTensor& tensor : plan) {
    const StoredTensor* const found = file.find(tensor.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->type, tensor.type);
    EXPECT_EQ(found->shape, tensor.shape);
    const std::string expected = content(tensor);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(found->bytes.data()), found->bytes.size()),
              expected);
    EXPECT_EQ(found->offset % uint64_t(layout_of(tensor.type).alignment), 0u);
  }
}

TEST(Safetensors, MayReplaceTheFileItIsMadeFrom) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "weights";
  replace_file(path, good_safetensors_file());
  const TensorFile file = open_safetensors(path);
  const StoredTensor& a = *file.find("a");
  write_safetensors(path, {{"a", a.type, a.shape}}, {},
                    [&](const PlannedTensor&, const Sink& sink) { sink(a.bytes); });
  const TensorFile copy = open_safetensors(path);
  EXPECT_EQ(copy.read(*copy.find("a"))[1], 2.0f);
}

TEST(Safetensors, IdentityChangesWithEveryTensorAndName) {
  std::string bytes = good_safetensors_file();
  const uint64_t identity = safetensors_from(bytes).identity();
  EXPECT_EQ(safetensors_from(bytes).identity(), identity);
  bytes.back() ^= 1;
  EXPECT_NE(safetensors_from(bytes).identity(), identity);
  bytes.back() ^= 1;
  bytes[bytes.find("\"b\"") + 1] = 'c';
  EXPECT_NE(safetensors_from(bytes).identity(), identity);
}

class Shards : public ::testing::Test {
 protected:
  void shard(const std::string& name, const std::string& tensor) {
    replace_file(scratch_.path() / name,
                 safetensors_file_of(
                     cat("{\"", tensor, R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})"),
                     tensor.substr(0, 1)));
  }
  TensorFile open(std::string_view weight_map) {
    replace_file(index_, cat(R"({"metadata":{"total_size":2},"weight_map":)", weight_map, "}"));
    return open_safetensors_index(index_);
  }
  test::Scratch scratch_;
  fs::path index_ = scratch_.path() / "model.safetensors.index.json";
};

TEST_F(Shards, AreReadAsOne) {
  shard("one.safetensors", "a");
  shard("two.safetensors", "b");
  const TensorFile file = open(R"({"a":"one.safetensors","b":"two.safetensors"})");
  EXPECT_EQ(file.read(*file.find("a"))[0], float('a'));
  EXPECT_EQ(file.read(*file.find("b"))[0], float('b'));
}

// As transformers: an index may be left of an earlier save.
TEST_F(Shards, AreNotReadWhereThereIsASingleFile) {
  shard("one.safetensors", "a");
  open(R"({"a":"one.safetensors"})");
  EXPECT_TRUE(open_tensor_file(scratch_.path()).find("a"));
  shard("model.safetensors", "b");
  EXPECT_TRUE(open_tensor_file(scratch_.path()).find("b"));
}

TEST_F(Shards, AreRejectedWhereTheIndexIsWrong) {
  shard("one.safetensors", "a");
  shard("two.safetensors", "b");
  EXPECT_FAULT(open(R"({"a":"../one.safetensors"})"), Fault::file, "found a path");
  EXPECT_FAULT(open(R"({"a":"/etc/passwd"})"), Fault::file, "found a path");
  EXPECT_FAULT(open(R"({"a":".."})"), Fault::file, "found a path");
  EXPECT_FAULT(open(R"({"a":"none.safetensors"})"), Fault::file, "No such file");
  EXPECT_FAULT(open(R"({"b":"one.safetensors"})"), Fault::file, "tensor 'a'");
  EXPECT_FAULT(open(R"({"a":"one.safetensors","c":"one.safetensors"})"), Fault::file, "found 1");
  EXPECT_FAULT(open(R"({"a":3})"), Fault::file, "weight_map");
  EXPECT_FAULT(open(R"({})"), Fault::file, "found none");
}

}  // namespace
}  // namespace deltasane
