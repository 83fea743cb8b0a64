// The rules token by token on a GPU, forward and backward, against the definition.
#include "kernel/delta_rule/token_cuda/token_rule.h"

#include <map>

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/delta_rule/bench/problem.h"
#include "kernel/delta_rule/reference.h"
#include "tensor/pooled_closeness.h"

namespace deltasane::kernel::cuda {
namespace {

struct TokenCase {
  int64_t batch, time, heads, keys, values, chunk;
  double tau;  // about; 0: no SANE
};
// Rows that warps share and do not fill, more than one tile of 16, chunks that end within one.
const TokenCase token_cases[] = {{2, 37, 2, 20, 10, 16, 1.5},
                                 {1, 19, 1, 64, 33, 5, 0.5},
                                 {1, 5, 2, 33, 3, 16, 0},
                                 {1, 17, 1, 130, 4, 4, 1e18}};

class GpuTokenRule : public GpuTest, public testing::WithParamInterface<Rule> {
 protected:
  Numbers<float> numbers(const Tensor<float>& x) const {
    return {x.span().begin(), x.span().end()};
  }
  GpuTensor<float> put(const Tensor<float>& x) const {
    return x.elements() ? upload<float>(numbers(x)) : GpuTensor<float>();
  }
  std::map<std::string, PooledCloseness> pools;

  void run(const TokenCase& n, uint64_t seed) {
    const ProblemShape shape{.rule = GetParam(),
                             .batch = n.batch,
                             .time = n.time,
                             .heads = n.heads,
                             .values = n.values,
                             .keys = n.keys,
                             .tau_low = n.tau * 0.9,
                             .tau_high = n.tau * 1.1,
                             .stagger = 0,
                             .chunk = n.chunk,
                             .state_scale = 0};
    Problem<float> plain(shape, seed);
    plain.dfinal.fill(0);
    Tensor<float> g = plain.w.clone();
    for (float& x : g.span()) x = std::log(x);
    Problem<double> truth = plain.in<double>();
    for (int64_t i = 0; i < g.elements(); ++i)
      truth.w[i] = std::exp(double(g[i])), plain.w[i] = std::exp(g[i]);
    reference::delta_rule(plain.op()), reference::delta_rule(truth.op());
    reference::delta_rule_backward(plain.op(), plain.gradient());
    reference::delta_rule_backward(truth.op(), truth.gradient());
    for (int64_t i = 0; i < g.elements(); ++i) plain.dw[i] *= plain.w[i], truth.dw[i] *= truth.w[i];

    Numbers<int32_t> first, length;
    for (int64_t i = 0; i < n.batch; ++i)
      first.push_back(int32_t(i * n.time)), length.push_back(int32_t(n.time));
    GpuTensor<int64_t> position(gpu(), {n.batch}, "a test");
    position.zero(gpu());
    const auto begins = upload(first), lengths = upload(length);
    const auto r = put(plain.r), k = put(plain.k), v = put(plain.v), beta = put(plain.beta),
               logs = put(g), tau = put(plain.tau), dy = put(plain.dy);
    TokenRule<float> op;
    op.rule = GetParam();
    op.rows = {n.batch * n.time, n.batch,        n.time,          nullptr,
               begins.data(),    lengths.data(), position.data(), nullptr};
    op.key_heads = op.heads = n.heads, op.keys = n.keys, op.values = n.values;
    op.r = r.data(), op.k = k.data(), op.v = v.data(), op.beta = beta.data();
    op.g = logs.data(), op.tau = tau.data(), op.chunk = n.chunk, op.chunks = n.time / n.chunk;
    if (!op.tau) op.chunks = 0;
    const auto like = [&](const Tensor<float>& x) { return poisoned<float>(x.elements()); };
    auto y = like(plain.v), saved = poisoned<float>(token_rule_states(op));
    op.y = y.data(), op.saved = saved.data();
    token_rule(op, gpu());
    auto dr = like(plain.r), dk = like(plain.k), dv = like(plain.v), dg = like(g),
         dbeta = like(plain.beta), dtau = like(plain.tau);
    auto scratch = poisoned<float>(token_rule_scratch(op));
    token_rule_backward<float>(op,
                               {.dy = dy.data(),
                                .dr = dr.data(),
                                .dk = dk.data(),
                                .dv = dv.data(),
                                .dg = dg.data(),
                                .dbeta = dbeta.data(),
                                .dtau = dtau.data(),
                                .scratch = scratch.data()},
                               gpu());
    const auto add = [&](const char* name, const GpuTensor<float>& found, const Tensor<float>& p,
                         const Tensor<double>& t) {
      if (p.elements()) pools[name].add(download(found), p.span(), t.span());
    };
    add("y", y, plain.y, truth.y), add("dr", dr, plain.dr, truth.dr);
    add("dk", dk, plain.dk, truth.dk), add("dv", dv, plain.dv, truth.dv);
    add("dg", dg, plain.dw, truth.dw), add("dbeta", dbeta, plain.dbeta, truth.dbeta);
    add("dtau", dtau, plain.dtau, truth.dtau);
  }
};
INSTANTIATE_TEST_SUITE_P(Rules, GpuTokenRule,
                         testing::Values(Rule::deltanet, Rule::gated_deltanet, Rule::kda),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });

TEST_P(GpuTokenRule, AndItsGradientAreTheDefinition) {
  for (const TokenCase& one : token_cases) {
    pools.clear();
    for (uint64_t seed = 1; seed <= 4; ++seed) run(one, seed);
    for (const auto& [name, pool] : pools)
      EXPECT_TRUE(pool.result().close)
          << name << " of " << one.time << ": " << pool.result().explanation();
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
