#include "tensor/buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/threads.h"

namespace deltasane {
namespace {

TEST(BufferPool, GivesWhatIsDoneWithAndNothingElse) {
  BufferPool pool;
  auto first = pool.take(1000);
  const auto second = pool.take(1000);
  EXPECT_NE(first->data(), second->data());
  const std::byte* const before = first->data();
  first.reset();
  EXPECT_NE(pool.take(uint64_t{3} << 20)->data(), before);  // too large for it
  EXPECT_EQ(pool.take(900)->data(), before);
}

TEST(BufferPool, GivesTheSmallestThatFits) {
  BufferPool pool;
  auto large = pool.take(5000), small = pool.take(2000), tiny = pool.take(1000);
  const std::byte* const fits = small->data();
  large.reset(), small.reset(), tiny.reset();
  EXPECT_EQ(pool.take(1500)->data(), fits);
}

TEST(BufferPool, IsForAnyThread) {
  BufferPool pool;
  ThreadPool threads(4);
  threads.parallel(400, [&](int64_t i) {
    const auto own = pool.take(64);
    std::fill_n(own->data(), 64, std::byte(i));
    for (int at = 0; at < 64; ++at) ASSERT_EQ(own->data()[at], std::byte(i));
  });
}

}  // namespace
}  // namespace deltasane
