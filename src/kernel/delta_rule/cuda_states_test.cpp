// What the operator on a GPU may be given or not does not change the rest, bit for bit: the states
// that the way forward kept, and the states at both ends.
#include "kernel/delta_rule/cuda.h"
#include "kernel/gpu_test_case.h"

namespace deltasane::kernel::cuda {
namespace {

class GpuDeltaRuleStates : public GpuTest {
 protected:
  // y and the gradients. kept: with the states of the way forward. ends: from zeros, with zeros as
  // the last state's gradient, and with the last state and the first one's gradient wanted.
  std::vector<Numbers<float>> results(int64_t time, bool kept, bool ends) const {
    constexpr int64_t batch = 2, heads = 3;
    const int64_t all = batch * time * heads * 64;
    const auto input = [&](uint64_t stream) { return there<bf16>(drawn<bf16>(all, 0.1, stream)); };
    const auto r = input(1), k = input(2), v = input(3), a = input(4), b = input(5), dy = input(6);
    const auto w = there<float>(drawn<float>(all, 0.02, 7, 0.9));
    const auto tau = there<float>(drawn<float>(batch * (time / 16) * heads, 0.1, 8, 2));
    const auto zeros = there<float>(Numbers<float>(batch * heads * 64 * 64));
    auto states = poisoned<float>(delta_rule_states(batch, time, heads));
    auto final_state = poisoned<float>(zeros.elements()),
         dinitial = poisoned<float>(zeros.elements());
    auto y = poisoned<bf16>(all), dr = poisoned<bf16>(all), dk = poisoned<bf16>(all);
    auto dv = poisoned<bf16>(all), da = poisoned<bf16>(all), db = poisoned<bf16>(all);
    auto dw = poisoned<float>(all), dtau = poisoned<float>(tau.elements());
    DeltaRule<bf16> op{.batch = batch, .time = time, .heads = heads};
    op.r = r.data(), op.k = k.data(), op.v = v.data(), op.a = a.data(), op.b = b.data();
    op.w = w.data(), op.tau = tau.data(), op.y = y.data();
    DeltaRuleGradient<bf16> d{.dy = dy.data()};
    d.dr = dr.data(), d.dk = dk.data(), d.dv = dv.data(), d.da = da.data(), d.db = db.data();
    d.dw = dw.data(), d.dtau = dtau.data();
    if (kept) op.states = states.data();
    if (ends) {
      op.initial = d.dfinal = zeros.data();
      op.final_state = final_state.data(), d.dinitial = dinitial.data();
    }
    DeltaRuleScratch scratch;
    delta_rule(op, scratch, gpu());
    delta_rule_backward(op, d, scratch, gpu());
    return {here(y), here(dr), here(dk), here(dv), here(da), here(db), here(dw), here(dtau)};
  }
};

// A time of whole tiles, and one that is not: few heads go other ways for them.
constexpr int64_t times[] = {80, 37};

TEST_F(GpuDeltaRuleStates, KeptOrMadeAgainGiveEqualBits) {
  for (const int64_t time : times) {
    const auto kept = results(time, true, false), made = results(time, false, false);
    EXPECT_EQ(std::vector(kept.begin() + 1, kept.end()), std::vector(made.begin() + 1, made.end()));
  }
}

TEST_F(GpuDeltaRuleStates, AbsentAtTheEndsAreZeros) {
  for (const int64_t time : times) {
    EXPECT_EQ(results(time, true, false), results(time, true, true));
    EXPECT_EQ(results(time, false, false), results(time, false, true));
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
