#include "kernel/delta_rule/bench/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace deltasane::kernel {
namespace {

template <class Real>
Tensor<Real> normal(const Shape& shape, double scale, Random& random) {
  Tensor<Real> out(shape);
  for (Real& x : out.span()) x = Real(float(scale * random.normal()));
  return out;
}

template <class Real>
Tensor<Real> uniform(const Shape& shape, double low, double high, Random& random) {
  Tensor<Real> out(shape);
  for (Real& x : out.span()) x = Real(float(random.uniform(low, high)));
  return out;
}

template <class Real>
void make_unit_vectors(Tensor<Real>& vectors) {
  const int64_t n = vectors.shape()[3];
  for (int64_t at = 0; at < vectors.elements(); at += n) {
    double squares = 0;
    for (int64_t j = 0; j < n; ++j) squares += double(vectors[at + j]) * double(vectors[at + j]);
    for (int64_t j = 0; j < n; ++j)
      vectors[at + j] = Real(float(double(vectors[at + j]) / std::sqrt(squares)));
  }
}

template <class To, class From>
Tensor<To> converted(const Tensor<From>& from) {
  if (from.elements() == 0) return {};
  Tensor<To> to(from.shape());
  for (int64_t i = 0; i < from.elements(); ++i) to[i] = To(from[i]);
  return to;
}

template <class Real>
void poison(Tensor<Real>& output, const Tensor<Real>& like) {
  output = like.clone();
  output.fill(std::numeric_limits<Real>::quiet_NaN());
}

template <class T>
View<T> view_if_any(Tensor<T>& tensor) {
  return tensor.elements() ? tensor.view() : View<T>{};
}

}  // namespace

template <class Real>
Problem<Real>::Problem(const ProblemShape& s, uint64_t seed) : shape(s) {
  Random random(seed);
  const Shape keys{s.batch, s.time, s.heads, s.keys}, values{s.batch, s.time, s.heads, s.values};
  const Shape per_head{s.batch, s.time, s.heads}, states{s.batch, s.heads, s.values, s.keys};
  r = normal<Real>(keys, 1, random);
  k = normal<Real>(keys, 1, random);
  v = normal<Real>(values, 1, random);
  if (s.rule == Rule::generalized) {
    a = normal<Real>(keys, 1, random);
    make_unit_vectors(a);
    b = Tensor<Real>(keys);
    for (int64_t i = 0; i < a.elements(); ++i) b[i] = Real(float(-double(a[i]) * random.uniform()));
  } else {
    make_unit_vectors(k);
    beta = uniform<Real>(per_head, 0.05, 0.95, random);
  }
  if (s.rule != Rule::deltanet)
    w = uniform<Real>(s.rule == Rule::gated_deltanet ? per_head : keys, 0.55, 0.999, random);
  initial = normal<Real>(states, s.state_scale, random);
  dy = normal<Real>(values, 1, random);
  dfinal = normal<Real>(states, 1, random);

  position = Tensor<int64_t>({s.batch});
  int64_t chunks = 0;
  for (int64_t i = 0; i < s.batch; ++i) {
    position[i] = s.position + s.stagger * i;
    chunks = std::max(chunks, chunks_ending(position[i], s.time, s.chunk));
  }
  if (s.tau_high > 0)
    tau = uniform<Real>({s.batch, chunks, s.heads}, s.tau_low, s.tau_high, random);
  if (s.padding) {
    present = Tensor<uint8_t>({s.batch, s.time});
    for (uint8_t& x : present.span()) x = random.below(20) != 0;
    neutralize = Tensor<uint8_t>({s.batch, chunks});
    for (uint8_t& x : neutralize.span()) x = random.below(4) != 0;
  }
  make_outputs();
}

template <class Real>
template <class Other>
Problem<Other> Problem<Real>::in() const {
  Problem<Other> out;
  out.shape = shape;
  out.r = converted<Other>(r), out.w = converted<Other>(w), out.k = converted<Other>(k);
  out.v = converted<Other>(v), out.a = converted<Other>(a), out.b = converted<Other>(b);
  out.beta = converted<Other>(beta), out.tau = converted<Other>(tau);
  out.initial = converted<Other>(initial);
  out.dy = converted<Other>(dy), out.dfinal = converted<Other>(dfinal);
  out.neutralize = neutralize.clone();
  out.present = present.clone();
  out.position = position.clone();
  out.make_outputs();
  return out;
}

template <class Real>
void Problem<Real>::make_outputs() {
  const Tensor<Real>* like[] = {&v, &initial, &r, &w, &k, &v, &a, &b, &beta, &tau, &initial};
  size_t which = 0;
  for (const auto& [name, output] : outputs()) poison(*output, *like[which++]);
}

template <class Real>
DeltaRule<Real> Problem<Real>::op(int64_t from, int64_t count, View<const Real> state) {
  const auto tokens = [&](auto& tensor) {
    auto view = view_if_any(tensor);
    return view ? view.slice(1, from, count) : view;
  };
  // Chunks that end before `from` are not part of the call. The sequences must agree on how many
  // those are where there is more than one, which they do at from = 0.
  int64_t passed = 0, ending = 0;
  later_position = position.clone();
  for (int64_t i = 0; i < shape.batch; ++i) {
    const int64_t before = chunks_ending(position[i], from, shape.chunk);
    require(i == 0 || before == passed,
            "a part of a problem: expected sequences with the same number of chunks before it");
    passed = before;
    later_position[i] += from;
    ending = std::max(ending, chunks_ending(later_position[i], count, shape.chunk));
  }
  const auto chunks = [&](auto& tensor) {
    auto view = view_if_any(tensor);
    return view ? view.slice(1, passed, ending) : view;
  };
  DeltaRule<Real> out;
  out.rule = shape.rule;
  out.r = tokens(r), out.w = tokens(w), out.k = tokens(k), out.v = tokens(v);
  out.a = tokens(a), out.b = tokens(b), out.beta = tokens(beta);
  out.tau = chunks(tau), out.neutralize = chunks(neutralize), out.present = tokens(present);
  out.position = later_position.view();
  out.chunk = shape.chunk;
  out.initial = state;
  out.final_state = final_state.view();
  out.y = tokens(y);
  return out;
}

template <class Real>
DeltaRuleGradient<Real> Problem<Real>::gradient() {
  return {dy.view(),          dfinal.view(),     view_if_any(dr), view_if_any(dw),
          view_if_any(dk),    view_if_any(dv),   view_if_any(da), view_if_any(db),
          view_if_any(dbeta), view_if_any(dtau), dinitial.view()};
}

template <class Real>
std::vector<std::pair<const char*, Tensor<Real>*>> Problem<Real>::outputs() {
  return {{"y", &y},
          {"final_state", &final_state},
          {"dr", &dr},
          {"dw", &dw},
          {"dk", &dk},
          {"dv", &dv},
          {"da", &da},
          {"db", &db},
          {"dbeta", &dbeta},
          {"dtau", &dtau},
          {"dinitial", &dinitial}};
}

template class Problem<float>;
template class Problem<double>;
template Problem<double> Problem<float>::in() const;
template Problem<float> Problem<float>::in() const;

}  // namespace deltasane::kernel
