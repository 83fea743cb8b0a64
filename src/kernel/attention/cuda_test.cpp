#include "kernel/attention/cuda.h"

#include "kernel/attention/reference.h"
#include "kernel/cuda/gpu_test_case.h"

namespace deltasane::kernel::cuda {
namespace {

struct Sizes {
  int64_t heads, kv_heads, size;
  int64_t window = 0, kept = 0, ring = 0;
  std::vector<std::pair<int64_t, int64_t>> sequences;  // position of the first token, tokens
};

enum class Way { rows, tiles };

template <class Real>
class GpuAttention : public GpuTest {
 protected:
  static constexpr int64_t fixed = 8, caches = 2, number = 1;

  // The tokens of all sequences are appended to caches that have those before them.
  void check(const Sizes& n, Way way) {
    const int64_t row = 2 * n.kv_heads * n.size, queries = n.heads * n.size, step = queries + row;
    int64_t rows = 0;
    for (const auto& [position, length] : n.sequences) rows += length;
    const Numbers<float> in = random_numbers<Real>(rows * step, 1.5, 1);
    Numbers<int32_t> sequence, first, length;
    Numbers<int64_t> position, capacity;
    std::vector<GpuTensor<Real>> memory;
    Numbers<Real*> places;
    std::vector<Numbers<float>> all;  // rows of each sequence, by position
    for (size_t i = 0; i < n.sequences.size(); ++i) {
      const auto [before, count] = n.sequences[i];
      first.push_back(int32_t(sequence.size())), length.push_back(int32_t(count));
      position.push_back(before);
      sequence.insert(sequence.end(), size_t(count), int32_t(i));
      Numbers<float> own = random_numbers<Real>((before + count) * row, 1, 2 + i);
      for (int64_t t = 0; t < count; ++t)
        std::copy_n(in.begin() + (first[i] + t) * step + queries, row,
                    own.begin() + (before + t) * row);
      const int64_t room = n.ring ? fixed + n.ring : before + count + int64_t(i);
      Numbers<float> cache(size_t(caches * room * row), NAN);
      for (int64_t p = 0; p < before; ++p)
        std::copy_n(own.begin() + p * row, row,
                    cache.begin() + (number * room + slot(n, p)) * row);
      capacity.push_back(room);
      memory.push_back(this->template upload<Real>(cache));
      places.push_back(memory.back().data());
      all.push_back(std::move(own));
    }
    const auto there = [&](const auto& numbers) {
      GpuTensor<std::decay_t<decltype(numbers[0])>> tensor(this->gpu(), {int64_t(numbers.size())},
                                                          "a test");
      tensor.upload(numbers, this->gpu());
      return tensor;
    };
    const auto sequences = there(sequence), firsts = there(first), lengths = there(length);
    const auto positions = there(position), capacities = there(capacity);
    const auto pointers = there(places);
    const auto x = this->template upload<Real>(in);
    auto y = this->template poisoned<Real>(rows * queries);
    Attention<Real> op;
    op.rows = {rows, int64_t(first.size()), *std::ranges::max_element(length), sequences.data(),
               firsts.data(), lengths.data(), positions.data(), nullptr};
    op.cache = {pointers.data(), capacities.data(), number, fixed, n.ring};
    op.heads = n.heads, op.kv_heads = n.kv_heads, op.size = n.size;
    op.q = x.data(), op.q_step = step, op.scale = 0.25f, op.window = n.window, op.kept = n.kept;
    op.y = y.data();
    append_to_cache(AppendRows<Real>{op.rows, op.cache, row, x.data() + queries, step},
                    this->gpu());
    AttentionScratch scratch;
    if constexpr (std::is_same_v<Real, bf16>)
      if (way == Way::tiles) attention_by_tiles(op, this->gpu());
    if (way == Way::rows) attention_by_rows(op, scratch, this->gpu());
    this->expect_close("y", y, definition<float>(n, in, first, all),
                       definition<double>(n, in, first, all));
  }

 private:
  static int64_t slot(const Sizes& n, int64_t p) {
    return n.ring == 0 || p < fixed ? p : fixed + (p - fixed) % n.ring;
  }
  template <class T>
  static Numbers<T> definition(const Sizes& n, const Numbers<float>& in,
                               const Numbers<int32_t>& first,
                               const std::vector<Numbers<float>>& all) {
    const int64_t row = 2 * n.kv_heads * n.size, queries = n.heads * n.size, step = queries + row;
    Numbers<T> y;
    for (size_t i = 0; i < all.size(); ++i)
      for (int64_t t = 0; t < n.sequences[i].second; ++t)
        for (int64_t h = 0; h < n.heads; ++h) {
          const int64_t g = h / (n.heads / n.kv_heads), end = n.sequences[i].first + t + 1;
          Numbers<T> k, v, out(static_cast<size_t>(n.size));
          for (int64_t p = 0; p < end; ++p) {
            if (n.window && p < end - n.window && p >= n.kept) continue;
            const float* const at = all[i].data() + p * row + g * n.size;
            k.insert(k.end(), at, at + n.size);
            v.insert(v.end(), at + row / 2, at + row / 2 + n.size);
          }
          const float* const from = in.data() + (first[i] + t) * step + h * n.size;
          const Numbers<T> q(from, from + n.size);
          reference::attention<T>(q, k, v, T(0.25), out);
          y.insert(y.end(), out.begin(), out.end());
        }
    return y;
  }
};
using Reals = testing::Types<float, bf16>;
TYPED_TEST_SUITE(GpuAttention, Reals);

TYPED_TEST(GpuAttention, RowByRowIsTheDefinition) {
  this->check({1, 1, 4, 0, 0, 0, {{0, 1}}}, Way::rows);
  this->check({6, 1, 40, 0, 0, 0, {{30, 2}, {0, 3}}}, Way::rows);
  this->check({4, 2, 128, 0, 0, 0, {{70, 1}, {3, 1}, {0, 1}}}, Way::rows);
  this->check({8, 2, 256, 0, 0, 0, {{1500, 1}}}, Way::rows);
  this->check({5, 1, 36, 0, 0, 0, {{150, 2}}}, Way::rows);
  this->check({2, 2, 16, 9, 3, 0, {{40, 5}, {6, 4}}}, Way::rows);
  this->check({2, 1, 16, 9, 4, 20, {{61, 5}, {2, 4}}}, Way::rows);
}

using GpuAttentionTiles = GpuAttention<bf16>;
TEST_F(GpuAttentionTiles, AreTheDefinition) {
  check({1, 1, 64, 0, 0, 0, {{0, 1}}}, Way::tiles);
  check({6, 2, 64, 0, 0, 0, {{37, 50}, {0, 3}, {5, 33}}}, Way::tiles);
  check({2, 2, 128, 0, 0, 0, {{100, 20}}}, Way::tiles);
  check({4, 1, 256, 0, 0, 0, {{0, 20}}}, Way::tiles);
}
TEST_F(GpuAttentionTiles, WithAWindowAreTheDefinition) {
  check({2, 1, 64, 9, 0, 0, {{40, 45}}}, Way::tiles);
  check({2, 1, 64, 20, 4, 0, {{90, 40}, {0, 50}}}, Way::tiles);
  check({4, 2, 64, 40, 4, 90, {{200, 40}, {3, 30}}}, Way::tiles);
  check({1, 1, 64, 5, 50, 0, {{80, 10}}}, Way::tiles);
}

}  // namespace
}  // namespace deltasane::kernel::cuda
