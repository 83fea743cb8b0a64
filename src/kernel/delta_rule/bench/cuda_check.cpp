#include "kernel/delta_rule/bench/cuda_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>

#include "base/error.h"
#include "kernel/delta_rule/cuda.h"
#include "kernel/delta_rule/reference.h"
#include "tensor/closeness.h"

namespace deltasane::kernel::cuda {
namespace {

template <class Real>
GpuTensor<Real> uploaded(const Tensor<float>& host, const Gpu& gpu) {
  Tensor<Real> converted(host.shape());
  for (int64_t i = 0; i < host.elements(); ++i) converted[i] = Real(host[i]);
  return GpuTensor<Real>(gpu, converted, "a check");
}

// Outputs start as NaN, so that missing writes are detected.
template <class Real>
GpuTensor<Real> poisoned(const Tensor<float>& like, const Gpu& gpu) {
  Tensor<Real> nan(like.shape());
  nan.fill(Real(std::numeric_limits<float>::quiet_NaN()));
  return GpuTensor<Real>(gpu, nan, "a check");
}

template <class Real>
void download(Tensor<float>& host, const GpuTensor<Real>& from, const Gpu& gpu) {
  const Tensor<Real> raw = from.on_host(gpu);
  for (int64_t i = 0; i < raw.elements(); ++i) host[i] = float(raw[i]);
}

bool has_backward(const ProblemShape& shape) {
  return shape.chunk == 16 && shape.position % 16 == 0;
}

// The inputs of a problem, on a GPU.
template <class Real>
struct GpuInputs {
  ProblemShape shape;
  GpuTensor<Real> r, k, v, a, b;
  GpuTensor<float> w, initial, tau;

  GpuInputs(const Problem<float>& p, const Gpu& gpu)
      : shape(p.shape),
        r(uploaded<Real>(p.r, gpu)),
        k(uploaded<Real>(p.k, gpu)),
        v(uploaded<Real>(p.v, gpu)),
        a(uploaded<Real>(p.a, gpu)),
        b(uploaded<Real>(p.b, gpu)),
        w(uploaded<float>(p.w, gpu)),
        initial(uploaded<float>(p.initial, gpu)),
        tau(p.tau.elements() ? uploaded<float>(p.tau, gpu) : GpuTensor<float>()) {}
  DeltaRule<Real> op() const {
    DeltaRule<Real> op;
    op.batch = shape.batch, op.time = shape.time, op.heads = shape.heads;
    op.position = shape.position, op.chunk = shape.chunk;
    op.r = r.data(), op.k = k.data(), op.v = v.data(), op.a = a.data(), op.b = b.data();
    op.w = w.data(), op.tau = tau.data(), op.initial = initial.data();
    return op;
  }
};

template <class Real>
void run_on_gpu(Problem<float>& p, const Gpu& gpu) {
  const GpuInputs<Real> inputs(p, gpu);
  auto y = poisoned<Real>(p.y, gpu);
  auto final_state = poisoned<float>(p.final_state, gpu);
  DeltaRule<Real> op = inputs.op();
  op.final_state = final_state.data(), op.y = y.data();
  DeltaRuleScratch scratch;
  delta_rule(op, scratch, gpu);
  download(p.y, y, gpu), download(p.final_state, final_state, gpu);
  if (!has_backward(p.shape)) return;
  const auto dy = uploaded<Real>(p.dy, gpu);
  const auto dfinal = uploaded<float>(p.dfinal, gpu);
  auto dr = poisoned<Real>(p.dr, gpu), dk = poisoned<Real>(p.dk, gpu);
  auto dv = poisoned<Real>(p.dv, gpu), da = poisoned<Real>(p.da, gpu);
  auto db = poisoned<Real>(p.db, gpu);
  auto dw = poisoned<float>(p.dw, gpu), dinitial = poisoned<float>(p.dinitial, gpu);
  auto dtau = p.tau.elements() ? poisoned<float>(p.dtau, gpu) : GpuTensor<float>();
  DeltaRuleGradient<Real> d;
  d.dy = dy.data(), d.dfinal = dfinal.data();
  d.dr = dr.data(), d.dk = dk.data(), d.dv = dv.data(), d.da = da.data(), d.db = db.data();
  d.dw = dw.data(), d.dtau = dtau.data(), d.dinitial = dinitial.data();
  delta_rule_backward(op, d, scratch, gpu);
  download(p.dr, dr, gpu), download(p.dk, dk, gpu), download(p.dv, dv, gpu),
      download(p.da, da, gpu);
  download(p.db, db, gpu), download(p.dw, dw, gpu), download(p.dinitial, dinitial, gpu);
  if (dtau) download(p.dtau, dtau, gpu);
}

void round(Tensor<float>& x) {
  for (float& one : x.span()) one = float(bf16(one));
}

// One output of several problems, concatenated: in double, in float, on the GPU.
struct Pooled {
  std::vector<double> truth;
  std::vector<float> plain, found;
};

template <class Real>
void add_case(const ProblemShape& shape, uint64_t seed, const Gpu& gpu,
              std::map<std::string, Pooled>& pool) {
  constexpr bool rounded = std::is_same_v<Real, bf16>;
  Problem<float> problem(shape, seed);
  if (rounded)
    for (Tensor<float>* x :
         {&problem.r, &problem.k, &problem.v, &problem.a, &problem.b, &problem.dy})
      round(*x);
  Problem<double> truth = problem.in<double>();
  Problem<float> found = problem.in<float>();
  const auto define = [&](auto& p) {
    reference::delta_rule(p.op());
    if (has_backward(shape)) reference::delta_rule_backward(p.op(), p.gradient());
  };
  define(truth), define(problem);
  run_on_gpu<Real>(found, gpu);
  if (rounded)
    for (Tensor<float>* x :
         {&problem.y, &problem.dr, &problem.dk, &problem.dv, &problem.da, &problem.db, &problem.dw})
      round(*x);
  const auto all = truth.outputs();
  const auto plain = problem.outputs(), on_gpu = found.outputs();
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string name = all[i].first;
    if (!has_backward(shape) && name != "y" && name != "final_state") continue;
    Pooled& one = pool[name];
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(one.truth, all[i].second->span()), append(one.plain, plain[i].second->span());
    append(one.found, on_gpu[i].second->span());
  }
}

}  // namespace

template <class Real>
std::vector<std::string> check_delta_rule(const ProblemShape& shape, uint64_t seed,
                                          const Gpu& gpu) {
  std::map<std::string, Pooled> pool;
  const uint64_t cases = shape.batch * shape.heads > 32 ? 1 : 4;
  for (uint64_t i = 0; i < cases; ++i) add_case<Real>(shape, seed * 1000 + i, gpu, pool);
  std::vector<std::string> wrong;
  for (const auto& [name, one] : pool) {
    const Closeness result = closeness(one.found, one.plain, one.truth);
    if (!result.close)
      wrong.push_back(cat(std::is_same_v<Real, bf16> ? "bf16" : "float", ", (", shape.batch, ", ",
                          shape.time, ", ", shape.heads, ") from ", shape.position, ", chunk ",
                          shape.chunk, ", tau near ", shape.tau_low, ": ", name, " is ",
                          result.explanation()));
  }
  return wrong;
}

template <class Real>
bool equals_its_parts(const ProblemShape& shape, int64_t part, const Gpu& gpu) {
  require(part >= shape.time || (shape.batch == 1 && shape.chunk == 16 && part % 16 == 0),
          "equals_its_parts: expected one sequence and parts of whole chunks");
  const Problem<float> problem(shape, 1);
  const GpuInputs<Real> inputs(problem, gpu);
  const auto bits_in_parts_of = [&](int64_t most) {
    auto y = poisoned<Real>(problem.y, gpu);
    GpuTensor<float> before, after;  // states
    DeltaRuleScratch scratch;
    for (int64_t from = 0; from < shape.time; from += most) {
      const int64_t tokens = from * shape.heads * 64;
      DeltaRule<Real> op = inputs.op();
      op.time = std::min(most, shape.time - from), op.position += from;
      op.r += tokens, op.k += tokens, op.v += tokens, op.a += tokens, op.b += tokens;
      op.w += tokens, op.tau += from / 16 * shape.heads;
      if (from) op.initial = before.data();
      after = poisoned<float>(problem.final_state, gpu);
      op.y = y.data() + tokens, op.final_state = after.data();
      delta_rule(op, scratch, gpu);
      std::swap(before, after);
    }
    return std::pair(y.on_host(gpu), before.on_host(gpu));
  };
  const auto [y, state] = bits_in_parts_of(shape.time);
  const auto [y_of_parts, state_of_parts] = bits_in_parts_of(part);
  const auto same = [](const auto& a, const auto& b) {
    return std::memcmp(a.data(), b.data(), a.span().size_bytes()) == 0;
  };
  const auto finite = [](const auto& x) {
    return std::ranges::all_of(x.span(), [](auto one) { return std::isfinite(float(one)); });
  };
  return finite(y) && finite(state) && same(y, y_of_parts) && same(state, state_of_parts);
}

template <class Real>
bool lengths_are_alone(const ProblemShape& shape, std::span<const int32_t> lengths,
                       const Gpu& gpu) {
  require(int64_t(lengths.size()) == shape.batch && shape.chunk == 16, "a length for each sequence");
  const Problem<float> problem(shape, 1);
  const GpuInputs<Real> given(problem, gpu);
  DeltaRuleScratch scratch;
  GpuTensor<int32_t> there(gpu, {shape.batch}, "lengths");
  there.upload(lengths, gpu);
  auto y = poisoned<Real>(problem.y, gpu);
  auto state = poisoned<float>(problem.final_state, gpu);
  DeltaRule<Real> op = given.op();
  op.lengths = there.data(), op.y = y.data(), op.final_state = state.data();
  delta_rule(op, scratch, gpu);
  const auto y_together = y.on_host(gpu);
  const auto state_together = state.on_host(gpu);
  const auto same = [](const auto* a, const auto* b, int64_t count) {
    return std::memcmp(a, b, size_t(count) * sizeof(*a)) == 0;
  };
  bool all = true;
  const int64_t row = shape.heads * 64, matrices = row * 64;
  for (int64_t i = 0; i < shape.batch; ++i) {
    const int64_t tokens = i * shape.time * row, length = lengths[size_t(i)];
    DeltaRule<Real> one = given.op();
    one.batch = 1, one.time = length;
    one.lengths = there.data() + i;  // the same kernel, however few heads there are
    one.r += tokens, one.k += tokens, one.v += tokens, one.a += tokens, one.b += tokens;
    one.w += tokens;
    if (one.tau) one.tau += i * (shape.time / 16) * shape.heads;
    if (one.initial) one.initial += i * matrices;
    auto own_y = poisoned<Real>(problem.y, gpu);
    auto own_state = poisoned<float>(problem.final_state, gpu);
    one.y = own_y.data(), one.final_state = own_state.data();
    delta_rule(one, scratch, gpu);
    const auto y_alone = own_y.on_host(gpu);
    const auto state_alone = own_state.on_host(gpu);
    all = all && same(y_together.data() + tokens, y_alone.data(), length * row) &&
          same(state_together.data() + i * matrices, state_alone.data(), matrices);
    for (int64_t j = 0; j < matrices; ++j) all = all && std::isfinite(state_alone[j]);
    // What is behind a sequence's end is left alone.
    for (int64_t j = length * row; j < shape.time * row; ++j)
      all = all && !std::isfinite(float(y_together[tokens + j]));
  }
  return all;
}

std::vector<ProblemShape> gpu_delta_rule_cases(const Gpu& gpu, const TauRange& taus) {
  const int64_t many = gpu.properties().multiprocessors / 2 + 1;  // heads
  std::vector<ProblemShape> cases{
      {.time = 1, .heads = 3, .position = 15},
      {.time = 1, .heads = 3, .position = 4},
      {.time = 16, .heads = 1},
      {.batch = 2, .time = 37, .heads = 3, .position = 11},
      {.batch = 2, .time = 64, .heads = 2, .position = 16},
      {.batch = 2, .time = 139, .heads = 3, .position = int64_t{1} << 33},
      {.batch = 2, .time = 70, .heads = 2, .chunk = 12},
      {.time = 33, .heads = 2, .state_scale = 30},
      {.time = 96, .heads = 2, .state_scale = 30},
      {.batch = 2, .time = 67, .heads = many}};
  for (ProblemShape& one : cases) one.tau_low = taus.low, one.tau_high = taus.high, one.stagger = 0;
  return cases;
}

template std::vector<std::string> check_delta_rule<float>(const ProblemShape&, uint64_t,
                                                          const Gpu&);
template std::vector<std::string> check_delta_rule<bf16>(const ProblemShape&, uint64_t, const Gpu&);
template bool equals_its_parts<float>(const ProblemShape&, int64_t, const Gpu&);
template bool equals_its_parts<bf16>(const ProblemShape&, int64_t, const Gpu&);
template bool lengths_are_alone<float>(const ProblemShape&, std::span<const int32_t>, const Gpu&);
template bool lengths_are_alone<bf16>(const ProblemShape&, std::span<const int32_t>, const Gpu&);

}  // namespace deltasane::kernel::cuda
