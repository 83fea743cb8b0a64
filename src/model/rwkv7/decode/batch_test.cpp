// Single tokens of a batch of sequences on a GPU against the definition.
#include "model/rwkv7/decode/batch.h"

#include <optional>

#include "base/cat.h"
#include "kernel/activation/cuda_definition.h"
#include "kernel/delta_rule/reference.h"
#include "kernel/time_mix/cuda_definition.h"
#include "kernel/token_shift/cuda_definition.h"

namespace deltasane::rwkv7 {
namespace {

using namespace kernel;
using namespace kernel::cuda::rows_definition;
using kernel::cuda::RowBlock;

LayerSizes sizes_of(int64_t channels) {
  return {2, channels, channels / 64, 4 * channels, 64, 32, 96};
}
constexpr int64_t sequences_of_batch = 3;

template <class Real>
class GpuBatch : public GpuTest {
 protected:
  // States, of which a part is compared, and their addresses.
  struct States {
    static constexpr float elsewhere = 0.5f;
    int64_t part_at, part;  // numbers
    std::vector<GpuTensor<float>> numbers;
    GpuTensor<int64_t> places;
    float* const* data() const { return reinterpret_cast<float* const*>(places.data()); }
  };
  // parts: one state's after the other.
  States states_of(const LayerSizes& sizes, int64_t part_at, const Numbers<float>& parts) const {
    States states{part_at, int64_t(parts.size()) / sequences_of_batch, {}, {}};
    std::vector<int64_t> places;
    for (int64_t i = 0; i < sequences_of_batch; ++i) {
      Numbers<float> one(size_t(sizes.memory_at(sizes.layers)), States::elsewhere);
      std::copy_n(parts.begin() + i * states.part, states.part, one.begin() + part_at);
      states.numbers.push_back(upload<float>(one));
      places.push_back(int64_t(reinterpret_cast<uintptr_t>(states.numbers.back().data())));
    }
    states.places = GpuTensor<int64_t>(gpu(), {sequences_of_batch}, "a test");
    states.places.upload(places, gpu());
    return states;
  }
  // The rest must be as it was.
  GpuTensor<float> parts_of(const States& states) const {
    Numbers<float> parts;
    for (const GpuTensor<float>& numbers : states.numbers) {
      Numbers<float> one = download(numbers);
      const auto part = one.begin() + states.part_at;
      parts.insert(parts.end(), part, part + states.part);
      std::fill_n(part, states.part, States::elsewhere);
      EXPECT_EQ(one, Numbers<float>(one.size(), States::elsewhere)) << "the rest of a state";
    }
    return upload<float>(parts);
  }
  // The recurrence alone, with what the mix has; all that heads do; the same with up projections that
  // are given.
  enum class Way { recurrence, heads, heads_after_up };
  void expect_step(int64_t channels, int64_t layer, Way way);
};
TYPED_TEST_SUITE(GpuBatch, Reals);

TYPED_TEST(GpuBatch, ShiftStatesIsTheDefinitionOfATokenEach) {
  using Real = TypeParam;
  for (const int64_t C : {64, 1088, 4160, 8192})
    for (const int mixes : {1, 6, 7}) {
      const int added = mixes == 6 ? 3 : mixes == 7 ? 4 : 0;
      const int plain_mixes = std::min(mixes, 6);  // one more ends a chunk
      const RowBlock rows{sequences_of_batch, 1, C};
      Shift<float> plain(rows, plain_mixes, shift_chunk - 1);
      Shift<double> truth(rows, plain_mixes, shift_chunk - 1);
      const LayerSizes sizes = sizes_of(C);
      const int64_t shift_at = sizes.shift_at(1, 1);
      const auto states = this->states_of(sizes, shift_at, plain.before);
      // x lacks some sums, of which the definition has all.
      Numbers<float> lacking = plain.x, parts;
      for (int p = 0; p < added; ++p)
        for (size_t i = 0; i < plain.x.size(); ++i) parts.push_back(float(int(i) % 7 - p) / 2);
      for (size_t i = 0; i < plain.x.size(); ++i)
        for (int p = 0; p < added; ++p) lacking[i] -= parts[size_t(p) * plain.x.size() + i];
      for (size_t i = 0; i < plain.x.size(); ++i) {
        float whole = lacking[i];
        for (int p = 0; p < added; ++p) whole += parts[size_t(p) * plain.x.size() + i];
        plain.x[i] = whole, truth.x[i] = whole;
      }
      auto x = this->template upload<float>(lacking);
      const auto parts_there = this->template upload<float>(parts);
      const auto weight = this->template upload<float>(plain.weight);
      const auto bias = this->template upload<float>(plain.bias);
      std::vector<GpuTensor<float>> mu;
      std::vector<GpuTensor<Real>> out;
      ShiftStates<Real> op{states.data(), sequences_of_batch, C,           shift_at,
                           x.data(),      weight.data(),      bias.data(), shift_eps};
      op.parts = parts_there.data(), op.added = added;
      for (op.mixes = 0; op.mixes < mixes; ++op.mixes) {
        mu.push_back(this->template upload<float>(plain.mu[size_t(op.mixes)]));
        out.push_back(this->template poisoned<Real>(sequences_of_batch * C));
        op.mu[op.mixes] = mu.back().data(), op.out[op.mixes] = out.back().data();
      }
      shift_states(op, this->gpu());
      EXPECT_EQ(this->download(x), plain.x);
      const auto expected = plain.forward();
      const auto true_result = truth.forward();
      for (int m = 0; m < mixes; ++m)
        this->expect_close(cat("mix ", m, " of ", mixes, ", C ", C), out[size_t(m)],
                           expected.out[size_t(m)], true_result.out[size_t(m)]);
      this->expect_close(cat("shifts, C ", C), this->parts_of(states), expected.last,
                         true_result.last);
    }
}

// A layer's heads for a token of each sequence. Up projections are (C, rank).
constexpr int64_t step_chunk = 16;
const std::vector<int64_t> step_positions{15, 3, 47};  // two end a chunk
template <class T, class Real>
struct Step {
  LayerSizes sizes;
  TimeMix<T, Real> mix;
  Numbers<T> low_w, low_a, low_v, low_g, up_w, up_a, up_v, up_g;
  Numbers<T> memory, tau;  // (sequence, head, 64, 64), (sequence, head)

  Step(int64_t channels, int64_t layer)
      : sizes(sizes_of(channels)), mix({sequences_of_batch, 1, channels}, layer == 0) {
    uint64_t stream = 100;
    const auto draw = [&](int64_t numbers, double scale) {
      return as<T>(random_numbers<Real>(numbers, scale, stream++));
    };
    low_w = draw(sequences_of_batch * sizes.rank_wa, 1),
    low_a = draw(sequences_of_batch * sizes.rank_wa, 1);
    low_v = draw(sequences_of_batch * sizes.rank_v, 1),
    low_g = draw(sequences_of_batch * sizes.rank_g, 1);
    up_w = draw(channels * sizes.rank_wa, 0.2), up_a = draw(channels * sizes.rank_wa, 0.2);
    up_v = draw(channels * sizes.rank_v, 0.2), up_g = draw(channels * sizes.rank_g, 0.2);
    memory = as<T>(random_numbers<float>(sequences_of_batch * channels * 64, 1, stream++));
    for (int64_t i = 0; i < sequences_of_batch * sizes.heads; ++i)
      tau.push_back(T(1.25 + 0.5 * double(i)));
  }

  Numbers<T> up_projection(Numbers<T> low, const Numbers<T>& up,
                           std::optional<Activation> first = {}) const {
    if (first) low = activated<T>(*first, {low.begin(), low.end()});
    const size_t rank = low.size() / size_t(sequences_of_batch), channels = up.size() / rank;
    Numbers<T> out(size_t(sequences_of_batch) * channels);
    for (size_t i = 0; i < out.size(); ++i)
      for (size_t j = 0; j < rank; ++j)
        out[i] += up[i % channels * rank + j] * low[i / channels * rank + j];
    return out;
  }
  void multiply() {
    mix.w = up_projection(low_w, up_w, Activation::tanh);
    mix.a = up_projection(low_a, up_a);
    if (!mix.first) mix.gate = up_projection(low_v, up_v);
    mix.g = up_projection(low_g, up_g, Activation::sigmoid);
  }
  // mix.y = S r.
  void recur() {
    const Shape token{sequences_of_batch, 1, sizes.heads, 64};
    kernel::DeltaRule<T> op;
    op.r = {mix.r.data(), token}, op.w = {mix.w.data(), token}, op.k = {mix.k.data(), token};
    op.v = {mix.v.data(), token}, op.a = {mix.a.data(), token}, op.b = {mix.b.data(), token};
    op.y = {mix.y.data(), token};
    op.tau = {tau.data(), {sequences_of_batch, 1, sizes.heads}};
    op.chunk = step_chunk, op.position = {step_positions.data(), {sequences_of_batch}};
    const View<T> states{memory.data(), {sequences_of_batch, sizes.heads, 64, 64}};
    op.initial = states, op.final_state = states;
    reference::delta_rule(op);
  }
  // From the up projections on; mix.y is what the output matrix reads.
  void finish() {
    mix.inputs();
    recur();
    mix.output();
  }
};

template <class Real>
void GpuBatch<Real>::expect_step(int64_t channels, int64_t layer, Way way) {
  SCOPED_TRACE(cat(channels, " channels, layer ", layer, ", way ", int(way)));
  Step<float, Real> plain(channels, layer);
  Step<double, Real> truth(channels, layer);
  const OnGpu<Real> g(
      plain.mix, [&](const auto& x) { return upload<Real>(x); },
      [&](const auto& x) { return upload<float>(x); });
  const LayerSizes& sizes = plain.sizes;
  const int64_t at = sizes.memory_at(layer);
  const auto states = states_of(sizes, at, plain.memory);
  GpuTensor<int64_t> positions(gpu(), {sequences_of_batch}, "a test");
  positions.upload(step_positions, gpu());
  const auto tau = upload<float>(plain.tau);
  auto y = poisoned<Real>(sequences_of_batch * channels);
  if (way == Way::recurrence) {
    step_states(StepStates<Real>{states.data(), positions.data(), sequences_of_batch, sizes.heads,
                                 at, step_chunk, g.r.data(), g.k.data(), g.v.data(), g.a.data(),
                                 g.b.data(), g.w.data(), tau.data(), y.data()},
                gpu());
    plain.recur(), truth.recur();
  } else {
    const auto together = [&](std::initializer_list<const Numbers<float>*> parts) {
      Numbers<float> all;
      for (const Numbers<float>* part : parts) all.insert(all.end(), part->begin(), part->end());
      return upload<Real>(all);
    };
    const Numbers<float> nothing;
    const auto rkv = together({&plain.mix.r, &plain.mix.k, &plain.mix.v});
    const auto low =
        together({&plain.low_w, &plain.low_a, layer == 0 ? &nothing : &plain.low_v, &plain.low_g});
    const auto up_w = upload<Real>(plain.up_w), up_a = upload<Real>(plain.up_a),
               up_v = upload<Real>(plain.up_v), up_g = upload<Real>(plain.up_g);
    auto v_first =
        layer == 0 ? poisoned<Real>(sequences_of_batch * channels) : upload<Real>(plain.mix.v_first);
    LayerWeights<Real> w{};
    w.w0 = g.w0.data(), w.a0 = g.a0.data(), w.v0 = g.v0.data(), w.k_k = g.k_k.data();
    w.k_a = g.k_a.data(), w.r_k = g.r_k.data();
    w.ln_x_weight = g.weight.data(), w.ln_x_bias = g.bias.data();
    w.up_w = up_w.data(), w.up_a = up_a.data(), w.up_v = up_v.data(), w.up_g = up_g.data();
    StepHeads<Real> op{states.data(), positions.data(), sequences_of_batch, w, sizes, layer,
                       step_chunk, group_eps, rkv.data(), low.data(), v_first.data(),
                       tau.data(), y.data()};
    const Numbers<float> first_v = layer == 0 ? plain.mix.v : plain.mix.v_first;
    plain.multiply(), truth.multiply();
    if (way == Way::heads_after_up) {
      plain.mix.a = rounded_to<Real>(plain.mix.a), plain.mix.g = rounded_to<Real>(plain.mix.g);
      plain.mix.gate = rounded_to<Real>(plain.mix.gate);
      truth.mix.w = as<double>(plain.mix.w), truth.mix.a = as<double>(plain.mix.a);
      truth.mix.g = as<double>(plain.mix.g), truth.mix.gate = as<double>(plain.mix.gate);
    }
    const auto up_of_w = upload<float>(plain.mix.w);
    const auto up_of_a = upload<Real>(plain.mix.a), up_of_g = upload<Real>(plain.mix.g),
               up_of_v = upload<Real>(plain.mix.gate);
    if (way == Way::heads_after_up) {
      op.up = {up_of_w.data(), up_of_a.data(), layer == 0 ? nullptr : up_of_v.data(),
               up_of_g.data()};
      op.low = nullptr;
    }
    step_heads(op, gpu());
    EXPECT_EQ(download(v_first), first_v);
    plain.finish(), truth.finish();
  }
  expect_close("y", y, plain.mix.y, truth.mix.y);
  expect_close("memory", parts_of(states), plain.memory, truth.memory);
}

TYPED_TEST(GpuBatch, StepStatesIsTheDefinition) {
  for (const int64_t channels : {64, 192})
    for (const int64_t layer : {0, 1}) this->expect_step(channels, layer, TestFixture::Way::recurrence);
}
TYPED_TEST(GpuBatch, StepHeadsIsTheDefinition) {
  for (const int64_t channels : {64, 192})
    for (const int64_t layer : {0, 1})
      for (const auto way : {TestFixture::Way::heads, TestFixture::Way::heads_after_up})
        this->expect_step(channels, layer, way);
}

}  // namespace
}  // namespace deltasane::rwkv7
