#include "kernel/attention/cuda_inputs.h"

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/norm/rms_reference.h"
#include "kernel/rope/reference.h"

namespace deltasane::kernel::cuda {
namespace {

template <class Real>
class GpuAttentionInputs : public GpuTest {
 protected:
  static constexpr int64_t heads = 4, kv_heads = 2, number = 1, gate = 5;
  static constexpr double theta = 1e4, eps = 1e-3;

  // Two sequences, of three tokens and of one: queries, keys and values, and a gate after them.
  void check(int64_t size, int64_t rotary, bool norms) {
    const int64_t all = heads + 2 * kv_heads, step = all * size + gate, row = 2 * kv_heads * size;
    const Numbers<int64_t> position{100'000, 2}, capacity{7, 5};
    const Numbers<int32_t> sequence{0, 0, 0, 1}, first{0, 3}, length{3, 1};
    const int64_t ring = 3, fixed = 2, rows = int64_t(sequence.size());
    const Numbers<float> in = random_numbers<Real>(rows * step, 1.5, 1);
    const Numbers<float> weights = random_numbers<float>(2 * size, 0.3, 2, 1);
    Numbers<double> turns;
    for (int64_t i = 0; i < rotary / 2; ++i)
      turns.push_back(reference::rope_angle(1, i, rotary, theta));

    std::vector<GpuTensor<Real>> caches;
    Numbers<Real*> places;
    for (const int64_t room : capacity) {
      caches.push_back(this->template poisoned<Real>(2 * room * row));
      places.push_back(caches.back().data());
    }
    auto x = this->template upload<Real>(in);
    const auto norm = this->template upload<float>(weights);
    const auto sequences = there(sequence), firsts = there(first), lengths = there(length);
    const auto positions = there(position), capacities = there(capacity);
    const auto pointers = there(places);
    const auto frequencies = there(turns);
    AttentionInputs<Real> op;
    op.rows = {rows,   2, 3, sequences.data(), firsts.data(), lengths.data(), positions.data(),
               nullptr};
    op.cache = {pointers.data(), capacities.data(), number, fixed, ring};
    op.heads = heads, op.kv_heads = kv_heads, op.size = size, op.x = x.data(), op.step = step;
    if (norms) op.q_norm = norm.data(), op.k_norm = norm.data() + size;
    op.eps = float(eps), op.rotary = rotary, op.frequencies = frequencies.data();
    attention_inputs(op, this->gpu());

    const auto prepared = [&]<class T>(int64_t r, int64_t head) {
      const float* const from = in.data() + r * step + head * size;
      Numbers<T> out(from, from + size);
      if (head >= heads + kv_heads) return out;
      const float* const weight = weights.data() + (head < heads ? 0 : size);
      if (norms)
        reference::rms_norm<T>(Numbers<T>(out), Numbers<T>(weight, weight + size), T(eps), out);
      const auto s = size_t(sequence[size_t(r)]);
      reference::rope<T>(out, position[s] + r - first[s], rotary, theta);
      return out;
    };
    const auto join = [](auto& to, const auto& more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    const Numbers<float> queries = this->download(x);
    Numbers<float> found, plain;
    Numbers<double> truth;
    for (int64_t r = 0; r < rows; ++r) {
      const auto s = size_t(sequence[size_t(r)]);
      const int64_t p = position[s] + r - first[s];
      const int64_t slot = p < fixed ? p : fixed + (p - fixed) % ring;
      const Numbers<float> cache = this->download(caches[s]);
      for (int64_t head = 0; head < all; ++head) {
        const float* const at = head < heads ? queries.data() + r * step + head * size
                                             : cache.data() + (number * capacity[s] + slot) * row +
                                                   (head - heads) * size;
        found.insert(found.end(), at, at + size);
        join(plain, prepared.template operator()<float>(r, head));
        join(truth, prepared.template operator()<double>(r, head));
      }
      // What is behind the queries stays.
      const int64_t after = r * step + heads * size;
      for (int64_t i = after; i < (r + 1) * step; ++i) EXPECT_EQ(queries[size_t(i)], in[size_t(i)]);
    }
    const Closeness close = closeness(found, rounded_to<Real>(plain), truth);
    EXPECT_TRUE(close.close) << size << " " << rotary << close.explanation();
    // Nothing is written beside the rows of these tokens, in the layer's cache and the others'.
    int64_t written = 0;
    for (const auto& cache : caches)
      for (const float value : this->download(cache)) written += !std::isnan(value);
    EXPECT_EQ(written, rows * row);
  }

 private:
  template <class T>
  GpuTensor<T> there(const Numbers<T>& numbers) {
    GpuTensor<T> tensor(this->gpu(), {int64_t(numbers.size())}, "a test");
    tensor.upload(numbers, this->gpu());
    return tensor;
  }
};
using Reals = testing::Types<float, bf16>;
TYPED_TEST_SUITE(GpuAttentionInputs, Reals);

TYPED_TEST(GpuAttentionInputs, AreTheDefinition) {
  this->check(256, 64, true);
  this->check(64, 64, true);
  this->check(40, 12, true);
  this->check(8, 8, false);
  this->check(6, 0, true);
}

}  // namespace
}  // namespace deltasane::kernel::cuda
