#include "kernel/delta_rule/bench/check.h"

#include "kernel/delta_rule/reference.h"
#include "tensor/closeness.h"

namespace deltasane::kernel {
namespace {

// Each output of several problems, concatenated.
template <class Real>
using Pool = std::vector<std::pair<const char*, std::vector<Real>>>;

template <class Real>
void add_outputs(Problem<Real>& problem, Pool<Real>& pool) {
  size_t which = 0;
  for (const auto& [name, tensor] : problem.outputs()) {
    if (which == pool.size()) pool.push_back({name, {}});
    auto& all = pool[which++].second;
    all.insert(all.end(), tensor->span().begin(), tensor->span().end());
  }
}

}  // namespace

std::vector<std::string> check_delta_rule(const ProblemShape& shape, uint64_t seed,
                                          ThreadPool& threads, std::span<const Isa> isas) {
  Pool<double> truth;
  Pool<float> plain;
  std::vector<Pool<float>> found(isas.size());
  for (uint64_t i = 0; i < 4; ++i) {
    Problem<float> problem(shape, seed * 1000 + i);
    Problem<double> exact = problem.in<double>();
    reference::delta_rule(exact.op());
    reference::delta_rule_backward(exact.op(), exact.gradient());
    add_outputs(exact, truth);
    for (size_t which = 0; which < isas.size(); ++which) {
      Problem<float> fresh = problem.in<float>();
      delta_rule(fresh.op(), {threads, isas[which]});
      delta_rule_backward(fresh.op(), fresh.gradient(), {threads, isas[which]});
      add_outputs(fresh, found[which]);
    }
    reference::delta_rule(problem.op());
    reference::delta_rule_backward(problem.op(), problem.gradient());
    add_outputs(problem, plain);
  }

  std::vector<std::string> wrong;
  for (size_t which = 0; which < isas.size(); ++which)
    for (size_t i = 0; i < truth.size(); ++i) {
      const Closeness result = closeness(found[which][i].second, plain[i].second, truth[i].second);
      if (!result.close)
        wrong.push_back(cat(name_of(shape.rule), " on ", name_of(isas[which]), ", (", shape.batch,
                            ", ", shape.time, ", ", shape.heads, ", ", shape.values, "x",
                            shape.keys, "), tau near ", shape.tau_low, ": ", truth[i].first, " is ",
                            result.explanation()));
    }
  return wrong;
}

std::vector<ProblemShape> delta_rule_cases(Rule rule) {
  std::vector<ProblemShape> cases;
  for (const auto& [low, high] : {std::pair{0.0, 0.0}, {1.4, 1.6}, {7.0, 9.0}}) {
    const auto add = [&](ProblemShape shape) {
      shape.rule = rule, shape.tau_low = low, shape.tau_high = high;
      cases.push_back(shape);
    };
    add({.time = 1, .heads = 5, .values = 16, .keys = 16, .position = 15});
    add({.batch = 2, .time = 37, .heads = 3, .values = 32, .keys = 32, .position = 11});
    add({.time = 65, .heads = 2, .position = (int64_t{1} << 33) + 3});
    add({.batch = 2, .time = 50, .heads = 2, .values = 23, .keys = 64, .padding = true});
    add({.batch = 3, .time = 19, .heads = 3, .values = 64, .keys = 64, .position = 7});
    add({.time = 20, .values = 128, .keys = 128, .chunk = 4});
    add({.time = 70, .heads = 4, .values = 5, .keys = 256, .chunk = 64});
    add({.batch = 2, .time = 21, .heads = 2, .values = 9, .keys = 18, .position = 3, .padding = true});
    add({.time = 33, .heads = 2, .state_scale = 30});
  }
  return cases;
}

}  // namespace deltasane::kernel
