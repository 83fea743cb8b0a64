#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/errors.h"
#include "tensor/dtype.h"

namespace deltasane {
namespace {

TEST(View, IndexesByStride) {
  Tensor<float> tensor({2, 3, 4});
  for (int64_t i = 0; i < tensor.elements(); ++i) tensor[i] = float(i);
  const View<float> whole = tensor.view();
  EXPECT_EQ(whole(1, 2, 3), 23.0f);
  EXPECT_EQ(whole.at(1, 1), tensor.data() + 16);
  const View<float> slice = whole.slice(1, 1, 2);
  EXPECT_EQ(slice.shape, (Shape{2, 2, 4}));
  EXPECT_EQ(slice(1, 0, 0), 16.0f);
  EXPECT_TRUE(whole.contiguous());
  EXPECT_FALSE(slice.contiguous());
}

TEST(View, NamesWhatWasExpectedAndFound) {
  Tensor<float> tensor({2, 3});
  EXPECT_FAULT(expect_shape("w", tensor.view(), {3, 2}), Fault::argument,
               "w: expected shape (3, 2), found (2, 3)");
  EXPECT_FAULT(expect_shape("w", View<float>{}, {3, 2}), Fault::argument, "found no tensor");
  expect_shape("w", tensor.view(), {2, 3});
}

TEST(Tensor, IsAlignedZeroAndKeepsItsOwnCopy) {
  Tensor<double> tensor({3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % Buffer::alignment, 0u);
  for (const double x : tensor.span()) EXPECT_EQ(x, 0.0);
  Tensor<double> copy = tensor.clone();
  copy[7] = 1.0;
  EXPECT_EQ(tensor[7], 0.0);
}

TEST(Buffer, FillsHugePagesFromAQuarterOfOneOn) {
  constexpr uint64_t page = uint64_t{2} << 20;
  const auto expect = [](uint64_t bytes, uint64_t size, uint64_t alignment) {
    const Buffer buffer = Buffer::in_huge_pages(bytes);
    EXPECT_EQ(buffer.size(), size) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % alignment, 0u) << bytes;
  };
  expect(0, 0, 1);
  expect(page / 4 - 1, page / 4 - 1, Buffer::alignment);
  expect(page / 4, page, page);
  expect(page, page, page);
  expect(page + 1, 2 * page, page);
}

TEST(Tensor, FreesMemoryOfAnotherAllocatorOnce) {
  static std::byte memory[8];
  static int freed = 0;
  memory[3] = std::byte{1};
  {
    Tensor<float> tensor({2}, Buffer(memory, 8, [](std::byte*) noexcept { ++freed; }));
    EXPECT_EQ(tensor.data(), reinterpret_cast<float*>(memory));
    EXPECT_EQ(tensor[0], 0.0f);
    Tensor<float> moved = std::move(tensor);
    tensor = Tensor<float>({3});
    moved = std::move(tensor);  // which has ordinary memory now
    EXPECT_EQ(moved.elements(), 3);
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
}

TEST(Tensor, RejectsSizesThatWrap) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_FAULT((Tensor<float>({huge, 3})), Fault::file, "does not fit in 64 bits");
}

TEST(DType, HasOneNamePerType) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_EQ(dtype_named(name_of(type)), type);
    with_dtype(type, [&]<class T>() { EXPECT_EQ(int64_t(sizeof(T)), element_size(type)); });
  }
  EXPECT_FAULT(dtype_named("f8"), Fault::usage, "found 'f8'");
}

}  // namespace
}  // namespace deltasane
