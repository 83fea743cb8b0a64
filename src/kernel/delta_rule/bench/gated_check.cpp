#include "kernel/delta_rule/bench/gated_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "kernel/delta_rule/bench/problem.h"
#include "kernel/delta_rule/gated_cuda/gated_rule.h"
#include "kernel/delta_rule/reference.h"
#include "tensor/closeness.h"

namespace deltasane::kernel::cuda {
namespace {

void round(Tensor<float>& x) {
  for (float& one : x.span()) one = float(bf16(one));
}

// (batch, time, head, channel) of the heads that share a key head: those of the first one, or their
// sum.
Tensor<float> of_key_heads(const Tensor<float>& x, const GatedShape& s) {
  const int64_t group = s.heads / s.key_heads, n = x.shape()[3];
  Tensor<float> out({s.batch, s.time, s.key_heads, n});
  for (int64_t i = 0; i < out.elements(); ++i) {
    const int64_t token_head = i / n;
    out[i] = x[token_head * group * n + i % n];
  }
  return out;
}
template <class Real>
std::vector<Real> sum_of_groups(const Tensor<Real>& x, const GatedShape& s) {
  const int64_t group = s.heads / s.key_heads, n = x.shape()[3];
  std::vector<Real> out;
  for (int64_t i = 0; i < s.batch * s.time * s.key_heads * n; ++i) {
    Real sum = 0;
    for (int64_t h = 0; h < group; ++h) sum += x[(i / n * group + h) * n + i % n];
    out.push_back(sum);
  }
  return out;
}

// A case, with heads that share a key head spelled out for the definition.
struct Case {
  GatedShape shape;
  Problem<float> plain;
  Problem<double> truth;
  Tensor<float> g;

  static ProblemShape of(const GatedShape& s) {
    return {.rule = s.rule,
            .batch = s.batch,
            .time = s.time,
            .heads = s.heads,
            .values = s.values,
            .keys = s.keys,
            .tau_low = s.tau_low,
            .tau_high = s.tau_high,
            .position = s.position,
            .stagger = 0,
            .state_scale = s.state_scale};
  }
  Case(const GatedShape& s, uint64_t seed) : shape(s), plain(of(s), seed), truth(of(s), seed) {
    Random random(seed, 1);
    for (Tensor<float>* x : {&plain.r, &plain.k, &plain.v, &plain.dy}) round(*x);
    const int64_t group = s.heads / s.key_heads;
    for (Tensor<float>* x : {&plain.r, &plain.k})
      for (int64_t i = 0; i < x->elements(); ++i) {
        const int64_t head = i / s.keys % s.heads;
        (*x)[i] = (*x)[i - head % group * s.keys];
      }
    if (s.rule != Rule::deltanet) {
      g = Tensor<float>(plain.w.shape());
      for (float& x : g.span()) {
        x = float(-s.strongest * std::pow(random.uniform(), 3.0));
        if (s.with_zeros && random.below(16) == 0) x = -std::numeric_limits<float>::infinity();
      }
      for (int64_t i = 0; i < g.elements(); ++i) plain.w[i] = std::exp(g[i]);
    }
    truth = plain.in<double>();
    for (int64_t i = 0; i < g.elements(); ++i) truth.w[i] = std::exp(double(g[i]));
  }
};

template <class T>
GpuTensor<T> uploaded(const Tensor<float>& host, const Gpu& gpu) {
  if (host.elements() == 0) return {};
  Tensor<T> converted(host.shape());
  for (int64_t i = 0; i < host.elements(); ++i) converted[i] = T(host[i]);
  return GpuTensor<T>(gpu, converted, "a check");
}
template <class T>
GpuTensor<T> poisoned(const Shape& shape, const Gpu& gpu) {
  Tensor<T> nan(shape);
  nan.fill(T(std::numeric_limits<float>::quiet_NaN()));
  return GpuTensor<T>(gpu, nan, "a check");
}
template <class T>
std::vector<float> downloaded(const GpuTensor<T>& from, const Gpu& gpu) {
  const Tensor<T> raw = from.on_host(gpu);
  std::vector<float> out;
  for (const T x : raw.span()) out.push_back(float(x));
  return out;
}

struct GpuCase {
  GatedShape shape;
  GpuTensor<bf16> r, k, v, y;
  GpuTensor<float> g, beta, tau, initial, final_state;
  GpuCase(const Case& c, const Gpu& gpu)
      : shape(c.shape),
        r(uploaded<bf16>(of_key_heads(c.plain.r, c.shape), gpu)),
        k(uploaded<bf16>(of_key_heads(c.plain.k, c.shape), gpu)),
        v(uploaded<bf16>(c.plain.v, gpu)),
        y(poisoned<bf16>(c.plain.v.shape(), gpu)),
        g(uploaded<float>(c.g, gpu)),
        beta(uploaded<float>(c.plain.beta, gpu)),
        tau(uploaded<float>(c.plain.tau, gpu)),
        initial(uploaded<float>(c.plain.initial, gpu)),
        final_state(poisoned<float>(c.plain.initial.shape(), gpu)) {}
  GatedRule op() {
    GatedRule op{.rule = shape.rule, .batch = shape.batch, .time = shape.time};
    op.key_heads = shape.key_heads, op.heads = shape.heads;
    op.keys = shape.keys, op.values = shape.values, op.position = shape.position;
    op.r = r.data(), op.k = k.data(), op.v = v.data(), op.g = g.data(), op.beta = beta.data();
    op.tau = tau.data(), op.initial = initial.data();
    op.final_state = final_state.data(), op.y = y.data();
    return op;
  }
};

// `op` from token `from` on, `count` tokens; `chunks` ended before.
GatedRule part_of(GatedRule op, int64_t from, int64_t count) {
  const int64_t chunks = chunks_ending(op.position, from, 16);
  op.r += from * op.key_heads * op.keys, op.k += from * op.key_heads * op.keys;
  op.v += from * op.heads * op.values, op.y += from * op.heads * op.values;
  if (op.g) op.g += from * op.heads * (op.rule == Rule::kda ? op.keys : 1);
  op.beta += from * op.heads;
  if (op.tau) op.tau += chunks * op.heads;
  op.time = count, op.position += from;
  return op;
}

// One output of several cases, concatenated.
struct Pooled {
  // What a result is made of: of products with a state of 16 bits, then rounded to bf16; with a
  // state rounded to bf16; of the state itself, a float.
  enum class Kind { output, gradient, state } kind = Kind::output;
  bool rounded() const { return kind != Kind::state; }
  std::vector<double> truth;
  std::vector<float> plain, found;
  template <class Truth, class Plain>
  void add(const Truth& t, const Plain& p, const std::vector<float>& f) {
    truth.insert(truth.end(), t.begin(), t.end());
    for (const auto x : p) plain.push_back(rounded() ? float(bf16(float(x))) : float(x));
    found.insert(found.end(), f.begin(), f.end());
  }
};
using Pool = std::map<std::string, Pooled>;

void run_definition(Case& c, Checked checked) {
  reference::delta_rule(c.truth.op()), reference::delta_rule(c.plain.op());
  if (checked == Checked::forward) return;
  reference::delta_rule_backward(c.truth.op(), c.truth.gradient());
  reference::delta_rule_backward(c.plain.op(), c.plain.gradient());
}

void add_case(const GatedShape& shape, uint64_t seed, Checked checked, const Gpu& gpu, Pool& pool) {
  Case c(shape, seed);
  run_definition(c, checked);
  GpuCase on_gpu(c, gpu);
  GatedRule op = on_gpu.op();
  GpuTensor<float> states;
  if (shape.save_states) {
    states = poisoned<float>({gated_rule_states(op)}, gpu);
    op.states = states.data();
  }
  DeltaRuleScratch scratch;
  gated_rule(op, scratch, gpu);
  pool["y"].add(c.truth.y.span(), c.plain.y.span(), downloaded(on_gpu.y, gpu));
  pool["final_state"].kind = Pooled::Kind::state;
  pool["final_state"].add(c.truth.final_state.span(), c.plain.final_state.span(),
                          downloaded(on_gpu.final_state, gpu));
  if (checked == Checked::forward) return;
  const auto dy = uploaded<bf16>(c.plain.dy, gpu);
  const auto dfinal = uploaded<float>(c.plain.dfinal, gpu);
  auto dr = poisoned<bf16>(on_gpu.r.shape(), gpu), dk = poisoned<bf16>(on_gpu.k.shape(), gpu);
  auto dv = poisoned<bf16>(c.plain.v.shape(), gpu);
  auto dbeta = poisoned<float>(c.plain.beta.shape(), gpu);
  auto dinitial = poisoned<float>(c.plain.initial.shape(), gpu);
  auto dg = c.g.elements() ? poisoned<float>(c.g.shape(), gpu) : GpuTensor<float>();
  auto dtau =
      c.plain.tau.elements() ? poisoned<float>(c.plain.tau.shape(), gpu) : GpuTensor<float>();
  GatedRuleGradient d{.dy = dy.data(), .dfinal = dfinal.data()};
  d.dr = dr.data(), d.dk = dk.data(), d.dv = dv.data(), d.dg = dg.data(), d.dbeta = dbeta.data();
  d.dtau = dtau.data(), d.dinitial = dinitial.data();
  gated_rule_backward(op, d, scratch, gpu);
  for (const char* name : {"dr", "dk", "dbeta", "dg", "dtau"})
    pool[name].kind = Pooled::Kind::gradient;
  pool["dr"].add(sum_of_groups(c.truth.dr, shape), sum_of_groups(c.plain.dr, shape),
                 downloaded(dr, gpu));
  pool["dk"].add(sum_of_groups(c.truth.dk, shape), sum_of_groups(c.plain.dk, shape),
                 downloaded(dk, gpu));
  pool["dv"].add(c.truth.dv.span(), c.plain.dv.span(), downloaded(dv, gpu));
  pool["dbeta"].add(c.truth.dbeta.span(), c.plain.dbeta.span(), downloaded(dbeta, gpu));
  if (dg) {
    for (int64_t i = 0; i < c.g.elements(); ++i)
      c.truth.dw[i] *= c.truth.w[i], c.plain.dw[i] *= c.plain.w[i];
    pool["dg"].add(c.truth.dw.span(), c.plain.dw.span(), downloaded(dg, gpu));
  }
  pool["dinitial"].kind = Pooled::Kind::state;
  pool["dinitial"].add(c.truth.dinitial.span(), c.plain.dinitial.span(), downloaded(dinitial, gpu));
  if (dtau) pool["dtau"].add(c.truth.dtau.span(), c.plain.dtau.span(), downloaded(dtau, gpu));
}

std::vector<std::string> faults_of(const Pool& pool, const GatedShape& shape) {
  std::vector<std::string> wrong;
  for (const auto& [name, one] : pool) {
    const Closeness result = closeness(one.found, one.plain, one.truth);
    if (result.close) continue;
    // The rows of docs/numerics.md for these kernels.
    double largest = 0;
    for (const double x : one.truth) largest = std::max(largest, std::abs(x));
    const double allowed = one.kind == Pooled::Kind::state      ? std::ldexp(largest, -14)
                           : one.kind == Pooled::Kind::gradient ? result.allowed
                                                                : 0;
    if (result.error <= result.allowed + allowed) continue;
    wrong.push_back(cat(name_of(shape), ": ", name, " is ", result.explanation(), "; largest ",
                        largest, ", at ", result.index, " of ", one.truth.size()));
  }
  return wrong;
}

template <class T>
bool same_bits(const Tensor<T>& a, const Tensor<T>& b) {
  return std::memcmp(a.data(), b.data(), a.span().size_bytes()) == 0;
}
template <class T>
bool all_finite(const Tensor<T>& x) {
  return std::ranges::all_of(x.span(), [](T one) { return std::isfinite(float(one)); });
}

}  // namespace

std::string name_of(const GatedShape& s) {
  return cat(kernel::name_of(s.rule), ", (", s.batch, ", ", s.time, ", ", s.heads, " of ",
             s.key_heads, "), ", s.keys, " x ", s.values, ", from ", s.position, ", tau near ",
             s.tau_low, ", decays to e^-", s.strongest, s.with_zeros ? " and 0" : "");
}

std::vector<std::string> check_gated(const GatedShape& shape, uint64_t seed, Checked checked,
                                     const Gpu& gpu) {
  Pool pool;
  const uint64_t cases = shape.batch * shape.heads > 16 ? 1 : 4;
  for (uint64_t i = 0; i < cases; ++i) add_case(shape, seed * 1000 + i, checked, gpu, pool);
  return faults_of(pool, shape);
}

std::vector<GatedShape> gated_cases(Rule rule, int64_t keys, int64_t values) {
  std::vector<GatedShape> cases{
      {.time = 33, .tau_low = 0, .tau_high = 0},
      {.batch = 2, .time = 70, .key_heads = 2, .heads = 6, .tau_low = 7, .tau_high = 9},
      {.time = 150, .heads = 2, .position = 16, .strongest = 0.05, .save_states = true},
      {.time = 37, .heads = 2, .position = int64_t{1} << 33 | 11, .strongest = 5},
      {.time = 75, .tau_low = 0.4, .tau_high = 12, .strongest = 20, .with_zeros = true},
      {.time = 50, .strongest = 100, .with_zeros = true, .state_scale = 3},
      {.batch = 2, .time = 35, .key_heads = 36, .heads = 72, .strongest = 2}};
  if (keys * values > 128 * 128)  // the definition is slow
    cases = {{.time = 35, .key_heads = 1, .heads = 2, .position = 11, .strongest = 5},
             {.time = 20, .strongest = 20, .with_zeros = true, .save_states = true},
             {.time = 18, .key_heads = 36, .heads = 36}};
  for (GatedShape& one : cases) one.rule = rule, one.keys = keys, one.values = values;
  return cases;
}

std::vector<std::string> check_gated_calls(const GatedShape& shape, uint64_t seed,
                                           std::span<const int64_t> calls, const Gpu& gpu) {
  require(shape.batch == 1, "check_gated_calls: expected one sequence");
  Case c(shape, seed);
  run_definition(c, Checked::forward);
  GpuCase on_gpu(c, gpu);
  DeltaRuleScratch scratch;
  int64_t from = 0;
  for (const int64_t count : calls) {
    GatedRule op = part_of(on_gpu.op(), from, count);
    if (from) op.initial = op.final_state;
    gated_rule(op, scratch, gpu);
    from += count;
  }
  require(from == shape.time, "check_gated_calls: expected calls for all tokens");
  Pool pool;
  pool["y"].add(c.truth.y.span(), c.plain.y.span(), downloaded(on_gpu.y, gpu));
  pool["final_state"].kind = Pooled::Kind::state;
  pool["final_state"].add(c.truth.final_state.span(), c.plain.final_state.span(),
                          downloaded(on_gpu.final_state, gpu));
  return faults_of(pool, shape);
}

bool gated_equals_its_parts(const GatedShape& shape, int64_t part, const Gpu& gpu) {
  require(shape.batch == 1 && part % 16 == 0, "expected one sequence and parts of whole chunks");
  const Case c(shape, 1);
  DeltaRuleScratch scratch;
  GpuCase whole(c, gpu), parts(c, gpu);
  gated_rule(whole.op(), scratch, gpu);
  for (int64_t from = 0; from < shape.time; from += part) {
    GatedRule op = part_of(parts.op(), from, std::min(part, shape.time - from));
    if (from) op.initial = op.final_state;
    gated_rule(op, scratch, gpu);
  }
  const auto y = whole.y.on_host(gpu);
  const auto state = whole.final_state.on_host(gpu);
  return all_finite(y) && all_finite(state) && same_bits(y, parts.y.on_host(gpu)) &&
         same_bits(state, parts.final_state.on_host(gpu));
}

bool gated_lengths_are_alone(const GatedShape& shape, std::span<const int32_t> lengths,
                             const Gpu& gpu) {
  require(int64_t(lengths.size()) == shape.batch, "a length for each sequence");
  const Case c(shape, 1);
  DeltaRuleScratch scratch;
  GpuTensor<int32_t> there(gpu, {shape.batch}, "lengths");
  there.upload(lengths, gpu);
  GpuCase together(c, gpu);
  GatedRule op = together.op();
  op.lengths = there.data();
  gated_rule(op, scratch, gpu);
  const auto y = together.y.on_host(gpu);
  const auto state = together.final_state.on_host(gpu);
  bool all = all_finite(state);
  const int64_t row = shape.heads * shape.values, matrices = row * shape.keys;
  for (int64_t i = 0; i < shape.batch; ++i) {
    GpuCase alone(c, gpu);  // with this sequence's length alone
    std::vector<int32_t> ones(lengths.size(), 1);
    ones[size_t(i)] = lengths[size_t(i)];
    there.upload(ones, gpu);
    GatedRule one = alone.op();
    one.lengths = there.data();
    gated_rule(one, scratch, gpu);
    const auto own_y = alone.y.on_host(gpu);
    const auto own_state = alone.final_state.on_host(gpu);
    const int64_t from = i * shape.time * row, end = from + lengths[size_t(i)] * row;
    all = all && std::memcmp(&y[from], &own_y[from], size_t(end - from) * sizeof(bf16)) == 0 &&
          std::memcmp(&state[i * matrices], &own_state[i * matrices],
                      size_t(matrices) * sizeof(float)) == 0;
    for (int64_t j = from; j < from + shape.time * row; ++j)
      all = all && std::isfinite(float(y[j])) == (j < end);
  }
  return all;
}

}  // namespace deltasane::kernel::cuda
