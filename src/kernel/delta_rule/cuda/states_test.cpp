// Optional arguments of the operator on a GPU do not change the other results, bit for bit: the
// states that forward saved, and the states at both ends.
#include "kernel/cuda/gpu_test_case.h"
#include "kernel/delta_rule/cuda.h"

namespace deltasane::kernel::cuda {
namespace {

class GpuDeltaRuleStates : public GpuTest {
 protected:
  // y and the gradients. saved: with the states that forward saved. ends: with zeros as the initial
  // state and as the gradient of the final one, and with the final state and the gradient of the
  // initial one wanted.
  std::vector<Numbers<float>> results(int64_t time, bool saved, bool ends) const {
    constexpr int64_t batch = 2, heads = 3;
    const int64_t all = batch * time * heads * 64;
    const auto input = [&](uint64_t stream) {
      return upload<bf16>(random_numbers<bf16>(all, 0.1, stream));
    };
    const auto r = input(1), k = input(2), v = input(3), a = input(4), b = input(5), dy = input(6);
    const auto w = upload<float>(random_numbers<float>(all, 0.02, 7, 0.9));
    const auto tau = upload<float>(random_numbers<float>(batch * (time / 16) * heads, 0.1, 8, 2));
    const auto zeros = upload<float>(Numbers<float>(batch * heads * 64 * 64));
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
    if (saved) op.states = states.data();
    if (ends) {
      op.initial = d.dfinal = zeros.data();
      op.final_state = final_state.data(), d.dinitial = dinitial.data();
    }
    DeltaRuleScratch scratch;
    delta_rule(op, scratch, gpu());
    delta_rule_backward(op, d, scratch, gpu());
    return {download(y),  download(dr), download(dk), download(dv),
            download(da), download(db), download(dw), download(dtau)};
  }
};

// A time of whole tiles, and one that is not: few heads take other paths for them.
constexpr int64_t times[] = {80, 37};

TEST_F(GpuDeltaRuleStates, SavedOrRecomputedGiveEqualBits) {
  for (const int64_t time : times) {
    const auto saved = results(time, true, false), recomputed = results(time, false, false);
    EXPECT_EQ(std::vector(saved.begin() + 1, saved.end()),
              std::vector(recomputed.begin() + 1, recomputed.end()));
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
