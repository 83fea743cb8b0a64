// Single tokens of many sequences on a GPU against the definition.
#include "kernel/rwkv7/cuda_many.h"

#include "kernel/gpu_test_case.h"
#include "kernel/rwkv7/cuda_test_definition.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

LayerSizes sizes_of(int64_t channels) {
  return {2, channels, channels / 64, 4 * channels, 64, 32, 96};
}
int64_t numbers_of(const LayerSizes& sizes) { return sizes.memory_at(sizes.layers); }

template <class Real>
class GpuManyOf : public GpuTest {
 protected:
  // States, and where each of them lies.
  struct States {
    std::vector<GpuTensor<float>> numbers;
    GpuTensor<int64_t> places;
    float* const* data() const { return reinterpret_cast<float* const*>(places.data()); }
  };
  States states_of(const std::vector<Numbers<float>>& numbers) const {
    States states;
    std::vector<int64_t> places;
    for (const Numbers<float>& one : numbers) {
      states.numbers.push_back(there<float>(one));
      places.push_back(int64_t(reinterpret_cast<uintptr_t>(states.numbers.back().data())));
    }
    states.places = GpuTensor<int64_t>(gpu(), {int64_t(places.size())}, "a test");
    states.places.upload(places, gpu());
    return states;
  }
  void expect_step(int64_t channels, int64_t layer, bool in_parts);
};
using Reals = testing::Types<float, bf16>;
TYPED_TEST_SUITE(GpuManyOf, Reals);

TYPED_TEST(GpuManyOf, ShiftStatesIsTheDefinitionOfATokenEach) {
  using Real = TypeParam;
  constexpr int64_t count = 3;
  for (const int64_t C : {64, 1088, 4160, 8192})
    for (const int mixes : {1, 6, 7}) {
      const int plain_mixes = std::min(mixes, 6);  // one more ends a chunk
      const RowBlock rows{count, 1, C};
      const Shift<float> plain(rows, plain_mixes, shift_chunk - 1);
      const Shift<double> truth(rows, plain_mixes, shift_chunk - 1);
      const LayerSizes sizes = sizes_of(C);
      const int64_t shift_at = sizes.shift_at(1, 1);
      std::vector<Numbers<float>> before(size_t(count),
                                         Numbers<float>(size_t(numbers_of(sizes)), 0.5f));
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(plain.before.begin() + i * C, C, before[size_t(i)].begin() + shift_at);
      const auto states = this->states_of(before);
      const auto x = this->template there<float>(plain.x);
      const auto weight = this->template there<float>(plain.weight);
      const auto bias = this->template there<float>(plain.bias);
      std::vector<GpuTensor<float>> mu;
      std::vector<GpuTensor<Real>> out;
      ShiftStates<Real> op{states.data(), count,         C,           shift_at,
                           x.data(),      weight.data(), bias.data(), shift_eps};
      for (op.mixes = 0; op.mixes < mixes; ++op.mixes) {
        mu.push_back(this->template there<float>(plain.mu[size_t(op.mixes)]));
        out.push_back(this->template poisoned<Real>(count * C));
        op.mu[op.mixes] = mu.back().data(), op.out[op.mixes] = out.back().data();
      }
      shift_states(op, this->gpu());
      const auto expected = plain.forward();
      const auto true_result = truth.forward();
      for (int m = 0; m < mixes; ++m)
        this->expect_close(cat("mix ", m, " of ", mixes, ", C ", C), out[size_t(m)],
                           expected.out[size_t(m)], true_result.out[size_t(m)]);
      Numbers<float> shifts;
      for (int64_t i = 0; i < count; ++i) {
        Numbers<float> after = this->here(states.numbers[size_t(i)]);
        const auto shift = after.begin() + shift_at;
        shifts.insert(shifts.end(), shift, shift + C);
        std::fill_n(shift, C, 0.5f);
        EXPECT_EQ(after, Numbers<float>(after.size(), 0.5f)) << "the rest of a state, C " << C;
      }
      this->expect_close("shifts", this->template there<float>(shifts), expected.last,
                         true_result.last);
    }
}

// A layer's heads for a token of each sequence. Second factors are (C, rank), as they lie.
constexpr int64_t step_count = 3, step_chunk = 16;
const std::vector<int64_t> step_positions{15, 3, 47};  // two end a chunk
template <class T, class Real>
struct Step {
  LayerSizes sizes;
  TimeMix<T, Real> mix;
  Numbers<T> low_w, low_a, low_v, low_g, up_w, up_a, up_v, up_g;
  Numbers<T> memory, tau;  // (sequence, head, 64, 64), (sequence, head)

  Step(int64_t channels, int64_t layer)
      : sizes(sizes_of(channels)), mix({step_count, 1, channels}, layer == 0) {
    uint64_t stream = 100;
    const auto draw = [&](int64_t count, double scale) {
      return as<T>(drawn<Real>(count, scale, stream++));
    };
    low_w = draw(step_count * sizes.rank_wa, 1), low_a = draw(step_count * sizes.rank_wa, 1);
    low_v = draw(step_count * sizes.rank_v, 1), low_g = draw(step_count * sizes.rank_g, 1);
    up_w = draw(channels * sizes.rank_wa, 0.2), up_a = draw(channels * sizes.rank_wa, 0.2);
    up_v = draw(channels * sizes.rank_v, 0.2), up_g = draw(channels * sizes.rank_g, 0.2);
    memory = as<T>(drawn<float>(step_count * channels * 64, 1, stream++));
    for (int64_t i = 0; i < step_count * sizes.heads; ++i) tau.push_back(T(1.25 + 0.5 * double(i)));
  }

  Numbers<T> second(Numbers<T> low, const Numbers<T>& up, GpuActivation then) const {
    if (then != GpuActivation::squared_relu)  // which stands for none
      low = activated<T>(then, {low.begin(), low.end()});
    const size_t rank = low.size() / size_t(step_count), channels = up.size() / rank;
    Numbers<T> out(size_t(step_count) * channels);
    for (size_t i = 0; i < out.size(); ++i)
      for (size_t j = 0; j < rank; ++j)
        out[i] += up[i % channels * rank + j] * low[i / channels * rank + j];
    return out;
  }
  void multiply() {
    mix.w = second(low_w, up_w, GpuActivation::tanh);
    mix.a = second(low_a, up_a, GpuActivation::squared_relu);
    if (!mix.first) mix.gate = second(low_v, up_v, GpuActivation::squared_relu);
    mix.g = second(low_g, up_g, GpuActivation::sigmoid);
  }
  // mix.y = S r.
  void recur() {
    for (int64_t head = 0; head < step_count * sizes.heads; ++head) {
      const int64_t sequence = head / sizes.heads;
      const T t = tau[size_t(head)];
      const bool ends = (step_positions[size_t(sequence)] + 1) % step_chunk == 0;
      for (int64_t i = head * 64; i < head * 64 + 64; ++i) {
        const auto entry = [&](int64_t j) -> T& { return memory[size_t(i * 64 + j)]; };
        const auto at = [&](const Numbers<T>& x, int64_t j) { return x[size_t(head * 64 + j)]; };
        T sa = 0, y = 0;
        for (int64_t j = 0; j < 64; ++j) sa += entry(j) * at(mix.a, j);
        for (int64_t j = 0; j < 64; ++j) {
          T& s = entry(j);
          s = s * at(mix.w, j) + sa * at(mix.b, j) + mix.v[size_t(i)] * at(mix.k, j);
          y += s * at(mix.r, j);
          if (ends) s = t * std::tanh(s / t);
        }
        mix.y[size_t(i)] = y;
      }
    }
  }
  // mix.y is what the output matrix reads.
  void run() {
    multiply();
    mix.inputs();
    recur();
    mix.output();
  }
};

// in_parts: the recurrence alone, with what the mix has.
template <class Real>
void GpuManyOf<Real>::expect_step(int64_t channels, int64_t layer, bool in_parts) {
  SCOPED_TRACE(cat(channels, " channels, layer ", layer, in_parts ? ", in parts" : ""));
  Step<float, Real> plain(channels, layer);
  Step<double, Real> truth(channels, layer);
  const OnGpu<Real> g(
      plain.mix, [&](const auto& x) { return there<Real>(x); },
      [&](const auto& x) { return there<float>(x); });
  const LayerSizes& sizes = plain.sizes;
  const int64_t of_sequence = channels * 64, at = sizes.memory_at(layer);
  std::vector<Numbers<float>> before(size_t(step_count),
                                     Numbers<float>(size_t(numbers_of(sizes)), 0.5f));
  for (int64_t i = 0; i < step_count; ++i)
    std::copy_n(plain.memory.begin() + i * of_sequence, of_sequence,
                before[size_t(i)].begin() + at);
  const auto states = states_of(before);
  GpuTensor<int64_t> positions(gpu(), {step_count}, "a test");
  positions.upload(step_positions, gpu());
  const auto tau = there<float>(plain.tau);
  auto y = poisoned<Real>(step_count * channels);
  if (in_parts) {
    step_states(StepStates<Real>{states.data(), positions.data(), step_count, sizes.heads, at,
                                 step_chunk, g.r.data(), g.k.data(), g.v.data(), g.a.data(),
                                 g.b.data(), g.w.data(), tau.data(), y.data()},
                gpu());
    plain.recur(), truth.recur();
  } else {
    const auto together = [&](std::initializer_list<const Numbers<float>*> parts) {
      Numbers<float> all;
      for (const Numbers<float>* part : parts) all.insert(all.end(), part->begin(), part->end());
      return there<Real>(all);
    };
    const Numbers<float> nothing;
    const auto rkv = together({&plain.mix.r, &plain.mix.k, &plain.mix.v});
    const auto low =
        together({&plain.low_w, &plain.low_a, layer == 0 ? &nothing : &plain.low_v, &plain.low_g});
    const auto up_w = there<Real>(plain.up_w), up_a = there<Real>(plain.up_a),
               up_v = there<Real>(plain.up_v), up_g = there<Real>(plain.up_g);
    auto v_first =
        layer == 0 ? poisoned<Real>(step_count * channels) : there<Real>(plain.mix.v_first);
    LayerWeights<Real> w{};
    w.w0 = g.w0.data(), w.a0 = g.a0.data(), w.v0 = g.v0.data(), w.k_k = g.k_k.data();
    w.k_a = g.k_a.data(), w.r_k = g.r_k.data();
    w.ln_x_weight = g.weight.data(), w.ln_x_bias = g.bias.data();
    w.up_w = up_w.data(), w.up_a = up_a.data(), w.up_v = up_v.data(), w.up_g = up_g.data();
    step_heads(
        StepHeads<Real>{states.data(), positions.data(), step_count, w, sizes, layer, step_chunk,
                        rkv.data(), low.data(), v_first.data(), tau.data(), y.data()},
        gpu());
    EXPECT_EQ(here(v_first), layer == 0 ? plain.mix.v : plain.mix.v_first);
    plain.run(), truth.run();
  }
  expect_close("y", y, plain.mix.y, truth.mix.y);
  Numbers<float> memory;
  for (int64_t i = 0; i < step_count; ++i) {
    Numbers<float> after = here(states.numbers[size_t(i)]);
    const auto own = after.begin() + at;
    memory.insert(memory.end(), own, own + of_sequence);
    std::fill_n(own, of_sequence, 0.5f);
    EXPECT_EQ(after, Numbers<float>(after.size(), 0.5f)) << "the rest of a state";
  }
  expect_close("memory", there<float>(memory), plain.memory, truth.memory);
}

TYPED_TEST(GpuManyOf, StepStatesIsTheDefinition) {
  for (const int64_t channels : {64, 192})
    for (const int64_t layer : {0, 1}) this->expect_step(channels, layer, true);
}
TYPED_TEST(GpuManyOf, StepHeadsIsTheDefinition) {
  for (const int64_t channels : {64, 192})
    for (const int64_t layer : {0, 1}) this->expect_step(channels, layer, false);
}

}  // namespace
}  // namespace deltasane::kernel::cuda
