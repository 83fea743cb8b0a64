// The way back with the states that the way forward kept equals the one that makes them again.
#include "kernel/delta_rule/cuda.h"
#include "kernel/gpu_test_case.h"

namespace deltasane::kernel::cuda {
namespace {

using GpuDeltaRuleStates = GpuTest;

TEST_F(GpuDeltaRuleStates, KeptOrMadeAgainGiveEqualBits) {
  constexpr int64_t batch = 2, time = 37, heads = 3, all = batch * time * heads * 64;
  const auto input = [&](uint64_t stream) { return there<bf16>(drawn<bf16>(all, 0.1, stream)); };
  const auto r = input(1), k = input(2), v = input(3), a = input(4), b = input(5), dy = input(6);
  const auto w = there<float>(drawn<float>(all, 0.02, 7, 0.9));
  const auto tau = there<float>(drawn<float>(batch * (time / 16) * heads, 0.1, 8, 2));
  auto states = poisoned<float>(delta_rule_states(batch, time, heads));
  std::vector<Numbers<float>> results[2];
  for (const bool kept : {false, true}) {
    auto y = poisoned<bf16>(all), dr = poisoned<bf16>(all), dk = poisoned<bf16>(all);
    auto dv = poisoned<bf16>(all), da = poisoned<bf16>(all), db = poisoned<bf16>(all);
    auto dw = poisoned<float>(all), dtau = poisoned<float>(tau.elements());
    DeltaRule<bf16> op{.batch = batch, .time = time, .heads = heads};
    op.r = r.data(), op.k = k.data(), op.v = v.data(), op.a = a.data(), op.b = b.data();
    op.w = w.data(), op.tau = tau.data(), op.y = y.data();
    if (kept) op.states = states.data();
    DeltaRuleScratch scratch;
    delta_rule(op, scratch, gpu());
    delta_rule_backward(op,
                        {.dy = dy.data(),
                         .dr = dr.data(),
                         .dk = dk.data(),
                         .dv = dv.data(),
                         .da = da.data(),
                         .db = db.data(),
                         .dw = dw.data(),
                         .dtau = dtau.data()},
                        scratch, gpu());
    results[kept] = {here(dr), here(dk), here(dv), here(da), here(db), here(dw), here(dtau)};
  }
  EXPECT_EQ(results[0], results[1]);
}

}  // namespace
}  // namespace deltasane::kernel::cuda
