#include "format/pth/pth.h"

#include <gtest/gtest.h>

#include "format/pth/fixture_pth.h"
#include "format/fixture_tensor_file.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::Bytes;
using test::Pickle;
using test::pth_of;

TensorFile pth_from(std::string_view bytes) {
  return read_pth(std::as_bytes(std::span(bytes)), "file");
}

const std::string six_floats = Bytes().floats({0, 1, 2, 3, 4, 5}).string();

// {"w": tensor} around the six floats.
std::string with_tensor(int64_t count, int64_t offset, const std::vector<int64_t>& size,
                        const std::vector<int64_t>& stride, std::string_view key = "0") {
  Pickle pickle;
  pickle.empty_ordered_dict().text("w").tensor("FloatStorage", key, count, offset, size, stride);
  return pth_of(pickle.raw("s").end(), {six_floats});
}

std::vector<float> values(const TensorFile& file, std::string_view name) {
  const Tensor<float> tensor = file.read(*file.find(name));
  return {tensor.span().begin(), tensor.span().end()};
}

TEST(Pth, ReadsATensor) {
  const std::string bytes = with_tensor(6, 0, {2, 3}, {3, 1});
  const TensorFile file = pth_from(bytes);
  EXPECT_EQ(file.tensors()[0].shape, (Shape{2, 3}));
  EXPECT_TRUE(file.tensors()[0].contiguous());
  EXPECT_EQ(values(file, "w"), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(Pth, HonoursStridesAndOffsets) {
  const std::string transposed = with_tensor(6, 0, {3, 2}, {1, 3});
  EXPECT_FALSE(pth_from(transposed).tensors()[0].contiguous());
  EXPECT_EQ(values(pth_from(transposed), "w"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  const std::string slice = with_tensor(6, 1, {2, 2}, {3, 1});
  EXPECT_EQ(values(pth_from(slice), "w"), (std::vector<float>{1, 2, 4, 5}));
  const std::string repeated = with_tensor(6, 2, {2, 3}, {0, 1});
  EXPECT_EQ(values(pth_from(repeated), "w"), (std::vector<float>{2, 3, 4, 2, 3, 4}));
  const std::string odd =
      with_tensor(6, 0, {1, 6, 1}, {77, 1, 99});  // strides of sizes of 1 are ignored
  EXPECT_TRUE(pth_from(odd).tensors()[0].contiguous());
  const std::string empty = with_tensor(6, 6, {0, 4}, {9, 1});
  EXPECT_TRUE(values(pth_from(empty), "w").empty());
}

TEST(Pth, ReadsWhatPyTorchAlsoWrites) {
  // Two tensors in one storage, one as a Parameter, attributes of the dictionary, a memo.
  Pickle pickle;
  pickle.empty_ordered_dict().raw("q").raw(std::string_view("\x00(", 2));
  pickle.text("a").tensor("FloatStorage", "0", 6, 0, {2}, {1});
  pickle.text("b").global("torch._utils", "_rebuild_parameter").raw("(");
  pickle.tensor("FloatStorage", "0", 6, 4, {2}, {1}).raw("\x88").empty_ordered_dict().raw("tR");
  pickle.raw("u}").text("_metadata").empty_ordered_dict().raw("sb");
  const std::string bytes = pth_of(pickle.end(), {six_floats});
  EXPECT_EQ(values(pth_from(bytes), "a"), (std::vector<float>{0, 1}));
  EXPECT_EQ(values(pth_from(bytes), "b"), (std::vector<float>{4, 5}));
}

TEST(Pth, ReadsUntypedStorages) {
  Pickle pickle;
  pickle.raw("}").text("w").global("torch._utils", "_rebuild_tensor_v3").raw("((");
  pickle.text("storage").global("torch.storage", "UntypedStorage").text("0").text("cpu");
  pickle.integer(24).raw("tQ").integer(1).tuple({5}).tuple({1}).raw("\x89").empty_ordered_dict();
  pickle.global("torch", "float32").raw("tRs");
  EXPECT_EQ(values(pth_from(pth_of(pickle.end(), {six_floats})), "w"),
            (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST(Pth, ReadsEveryStorageType) {
  const auto one = [](std::string_view type, const std::string& storage) {
    Pickle pickle;
    pickle.raw("}").text("w").tensor(type, "0", 1, 0, {1}, {1});
    const std::string bytes = pth_of(pickle.raw("s").end(), {storage});
    const TensorFile file = pth_from(bytes);
    return file.read(file.tensors()[0])[0];
  };
  EXPECT_EQ(one("DoubleStorage", Bytes().number(1.5).string()), 1.5f);
  EXPECT_EQ(one("HalfStorage", Bytes().number(f16(1.5f).bits).string()), 1.5f);
  EXPECT_EQ(one("BFloat16Storage", Bytes().number(bf16(1.5f).bits).string()), 1.5f);
  EXPECT_EQ(one("LongStorage", Bytes().number(int64_t{-9}).string()), -9.0f);
  EXPECT_EQ(one("IntStorage", Bytes().number(int32_t{-9}).string()), -9.0f);
  EXPECT_EQ(one("ShortStorage", Bytes().number(int16_t{-9}).string()), -9.0f);
  EXPECT_EQ(one("CharStorage", Bytes().number(int8_t{-9}).string()), -9.0f);
  EXPECT_EQ(one("ByteStorage", "\xff"), 255.0f);
  EXPECT_EQ(one("BoolStorage", "\x01"), 1.0f);
}

TEST(Pth, RejectsEveryFlippedBitOfAnEntry) {
  const std::string good = with_tensor(6, 0, {2, 3}, {3, 1});
  for (const std::string& body : {six_floats, std::string("little"), std::string("OrderedDict")}) {
    const size_t at = good.find(body);
    for (size_t i = at; i < at + body.size(); ++i)
      for (int bit = 0; bit < 8; ++bit) {
        std::string bytes = good;
        bytes[i] = char(bytes[i] ^ (1 << bit));
        EXPECT_FAULT(pth_from(bytes), Fault::file, "checksum");
      }
  }
}

TEST(Pth, RejectsTensorsOutsideTheirStorage) {
  const auto rejected = [](std::string bytes, std::string_view why) {
    EXPECT_FAULT(pth_from(bytes), Fault::file, why);
  };
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  rejected(with_tensor(6, 1, {6}, {1}), "storage of 6 elements");
  rejected(with_tensor(6, 0, {2, 3}, {4, 1}), "storage of 6 elements");
  rejected(with_tensor(6, 0, {7}, {0}), "storage of 6 elements");
  rejected(with_tensor(6, 7, {0}, {1}), "storage of 6 elements");
  rejected(with_tensor(6, -1, {2}, {1}), "not negative");
  rejected(with_tensor(6, 0, {-2}, {1}), "not negative");
  rejected(with_tensor(6, 0, {2}, {-1}), "not negative");
  rejected(with_tensor(6, 0, {2}, {1, 1}), "as many strides");
  rejected(with_tensor(6, 0, {2}, {huge}), "storage of 6 elements");
  rejected(with_tensor(6, huge, {2}, {huge}), "storage of 6 elements");
  rejected(with_tensor(6, 0, {3, 3}, {huge, huge}), "does not fit");
  rejected(with_tensor(6, 0, {huge, huge}, {1, 1}), "fewer than 2^60");
  rejected(with_tensor(6, 0, {0, huge, huge}, {1, 1, 1}), "fewer than 2^60");
  rejected(with_tensor(6, 0, {1, 1, 1, 1, 1, 1, 6}, {1, 1, 1, 1, 1, 1, 1}), "at most 6");
  rejected(with_tensor(5, 0, {5}, {1}), "storage of 20 bytes, found 24");
  rejected(with_tensor(7, 0, {5}, {1}), "storage of 28 bytes, found 24");
  rejected(with_tensor(-1, 0, {5}, {1}), "valid element count");
  rejected(with_tensor(huge, 0, {5}, {1}), "valid element count");
  rejected(with_tensor(6, 0, {6}, {1}, "9"), "'model/data/9'");
  rejected(with_tensor(6, 0, {6}, {1}, "../0"), "number as the storage's key");
  rejected(with_tensor(6, 0, {6}, {1}, ""), "number as the storage's key");
}

TEST(Pth, RejectsAnotherByteOrderAndOtherArchives) {
  auto pieces = test::pth_pieces(Pickle().raw("}").end(), {});
  EXPECT_EQ(pth_from(test::zip_of(pieces)).tensors().size(), 0u);
  pieces[1].bytes = "big";
  EXPECT_FAULT(pth_from(test::zip_of(pieces)), Fault::file, "found 'big'");
  EXPECT_FAULT(pth_from(test::zip_of({{"a/b.txt", "x"}})), Fault::file, "'a/data.pkl'");
  EXPECT_FAULT(pth_from(test::zip_of({})), Fault::file, "found none");
}

TEST(Pth, RejectsRepeatedNames) {
  Pickle pickle;
  pickle.raw("}(");
  for (int i = 0; i < 2; ++i) pickle.text("w").tensor("FloatStorage", "0", 6, 0, {6}, {1});
  EXPECT_FAULT(pth_from(pth_of(pickle.raw("u").end(), {six_floats})), Fault::file, "tensor 'w'");
}

TEST(Pth, RejectsEveryCutAndSurvivesEveryFlip) {
  const std::string bytes = with_tensor(6, 1, {2, 2}, {3, 1});
  test::expect_every_cut_rejected(bytes, test::read_all(read_pth));
  test::expect_every_flip_survived(bytes, bytes.size(), test::read_all(read_pth));
}

}  // namespace
}  // namespace deltasane
