#include "kernel/delta_rule/validate.h"

#include <algorithm>
#include <cmath>

namespace deltasane::kernel {
namespace {

template <class Real>
struct Sizes {
  int64_t batch, time, heads, key_heads, keys, values;

  explicit Sizes(const DeltaRule<Real>& op) {
    expect_rank("k", op.k);
    expect_rank("v", op.v);
    batch = op.k.shape[0], time = op.k.shape[1], key_heads = op.k.shape[2], keys = op.k.shape[3];
    heads = op.v.shape[2], values = op.v.shape[3];
    for (const int64_t size : {batch, time, heads, key_heads, keys, values})
      if (size < 1)
        fail(Fault::argument, "k: expected (batch, time, head, key) of at least 1 each, found ",
             op.k.shape, " and v ", op.v.shape);
    if (heads != key_heads && (op.rule == Rule::generalized || heads % key_heads != 0))
      fail(Fault::argument, "v: expected ",
           op.rule == Rule::generalized ? cat(key_heads) : cat("a multiple of ", key_heads),
           " heads, found ", heads);
  }

  static void expect_rank(std::string_view name, const View<const Real>& view) {
    if (view.shape.rank() != 4)
      fail(Fault::argument, name, ": expected (batch, time, head, channel), found ", view.shape);
  }

  Shape key_vectors() const { return {batch, time, key_heads, keys}; }
  Shape value_vectors() const { return {batch, time, heads, values}; }
  Shape per_head() const { return {batch, time, heads}; }
  Shape states() const { return {batch, heads, values, keys}; }
  Shape decays(Rule rule) const {
    return rule == Rule::gated_deltanet ? per_head() : Shape{batch, time, heads, keys};
  }
};

template <class T>
void expect_if_given(std::string_view name, const View<T>& view, const Shape& expected) {
  if (view) expect_shape(name, view, expected);
}

template <class T>
void expect_none(std::string_view name, const View<T>& view, Rule rule) {
  if (view)
    fail(Fault::argument, name, ": expected none for the rule ", name_of(rule), ", found ",
         view.shape);
}

void expect_zero_or_one(std::string_view name, const View<const uint8_t>& mask) {
  for (int64_t b = 0; mask && b < mask.shape[0]; ++b)
    for (int64_t i = 0; i < mask.shape[1]; ++i)
      if (mask(b, i) > 1)
        fail(Fault::argument, name, "(", b, ", ", i, "): expected 0 or 1, found ", mask(b, i));
}

template <class Real>
int64_t start(const DeltaRule<Real>& op, int64_t b) {
  return op.position ? op.position(b) : 0;
}

template <class Real>
void validate_chunks(const DeltaRule<Real>& op, const Sizes<Real>& n) {
  if (op.chunk < 1) fail(Fault::argument, "chunk: expected at least 1, found ", op.chunk);
  expect_if_given("position", op.position, {n.batch});
  int64_t chunks = 0;
  for (int64_t b = 0; b < n.batch; ++b) {
    if (start(op, b) < 0)
      fail(Fault::argument, "position(", b, "): expected 0 or more, found ", start(op, b));
    chunks = std::max(chunks, chunks_ending(start(op, b), n.time, op.chunk));
  }
  expect_if_given("tau", op.tau, {n.batch, chunks, n.heads});
  expect_if_given("neutralize", op.neutralize, {n.batch, chunks});
  expect_if_given("present", op.present, {n.batch, n.time});
  expect_zero_or_one("neutralize", op.neutralize);
  expect_zero_or_one("present", op.present);
  for (int64_t b = 0; op.tau && b < n.batch; ++b)
    for (int64_t c = 0; c < chunks_ending(start(op, b), n.time, op.chunk); ++c)
      for (int64_t h = 0; h < n.heads; ++h)
        if (!(op.tau(b, c, h) > 0) || !std::isfinite(op.tau(b, c, h)))
          fail(Fault::argument, "tau(", b, ", ", c, ", ", h,
               "): expected a finite number above 0, found ", op.tau(b, c, h));
}

template <class Real>
void validate_inputs(const DeltaRule<Real>& op, const Sizes<Real>& n) {
  expect_shape("r", op.r, n.key_vectors());
  expect_shape("k", op.k, n.key_vectors());
  expect_shape("v", op.v, n.value_vectors());
  if (op.rule == Rule::generalized) {
    expect_shape("a", op.a, n.key_vectors());
    expect_shape("b", op.b, n.key_vectors());
    expect_none("beta", op.beta, op.rule);
  } else {
    expect_none("a", op.a, op.rule);
    expect_none("b", op.b, op.rule);
    expect_shape("beta", op.beta, n.per_head());
  }
  if (op.rule == Rule::deltanet)
    expect_none("w", op.w, op.rule);
  else
    expect_shape("w", op.w, n.decays(op.rule));
  expect_if_given("initial", op.initial, n.states());
  validate_chunks(op, n);
}

}  // namespace

template <class Real>
void validate(const DeltaRule<Real>& op) {
  const Sizes<Real> n(op);
  validate_inputs(op, n);
  expect_if_given("final_state", op.final_state, n.states());
  expect_shape("y", op.y, n.value_vectors());
}

template <class Real>
void validate(const DeltaRule<Real>& op, const DeltaRuleGradient<Real>& gradient) {
  const Sizes<Real> n(op);
  validate_inputs(op, n);
  expect_shape("dy", gradient.dy, n.value_vectors());
  expect_if_given("dfinal", gradient.dfinal, n.states());
  expect_if_given("dinitial", gradient.dinitial, n.states());
  expect_if_given("dr", gradient.dr, n.key_vectors());
  expect_if_given("dk", gradient.dk, n.key_vectors());
  expect_if_given("dv", gradient.dv, n.value_vectors());
  if (op.rule == Rule::generalized) {
    expect_if_given("da", gradient.da, n.key_vectors());
    expect_if_given("db", gradient.db, n.key_vectors());
    expect_none("dbeta", gradient.dbeta, op.rule);
  } else {
    expect_none("da", gradient.da, op.rule);
    expect_none("db", gradient.db, op.rule);
    expect_if_given("dbeta", gradient.dbeta, n.per_head());
  }
  if (op.rule == Rule::deltanet)
    expect_none("dw", gradient.dw, op.rule);
  else
    expect_if_given("dw", gradient.dw, n.decays(op.rule));
  if (gradient.dtau && !op.tau)
    fail(Fault::argument, "dtau: expected none without tau, found ", gradient.dtau.shape);
  if (op.tau) expect_if_given("dtau", gradient.dtau, op.tau.shape);
}

template void validate(const DeltaRule<float>&);
template void validate(const DeltaRule<double>&);
template void validate(const DeltaRule<float>&, const DeltaRuleGradient<float>&);
template void validate(const DeltaRule<double>&, const DeltaRuleGradient<double>&);

}  // namespace deltasane::kernel
