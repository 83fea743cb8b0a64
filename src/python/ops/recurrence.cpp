#include "python/ops/recurrence.h"

#include <algorithm>

#include "kernel/delta_rule/reference.h"
#include "python/ops/worker_threads.h"

namespace deltasane::python {
namespace {

// The index of a view's first element that `found` holds for; empty: none.
template <class Real, class Found>
std::vector<int64_t> first_where(const View<const Real>& view, const Found& found) {
  const int rank = view.shape.rank();
  if (view.shape.elements() == 0) return {};
  std::vector<int64_t> at(size_t(rank), 0);
  for (;;) {
    const Real* row = view.data;
    for (int i = 0; i + 1 < rank; ++i) row += at[size_t(i)] * view.stride[i];
    const int64_t count = view.shape[rank - 1], step = view.stride[rank - 1];
    for (int64_t j = 0; j < count; ++j)
      if (found(row[j * step])) {
        at.back() = j;
        return at;
      }
    int i = rank - 2;
    while (i >= 0 && ++at[size_t(i)] == view.shape[i]) at[size_t(i--)] = 0;
    if (i < 0) return {};
  }
}

// Whether w may be a decay by its shape; others are refused when all shapes are looked at.
template <class Real>
bool is_shaped_like_decays(const kernel::DeltaRule<Real>& op) {
  if (!op.w || op.k.shape.rank() != 4 || op.v.shape.rank() != 4) return false;
  const Shape tokens{op.v.shape[0], op.v.shape[1], op.v.shape[2], op.k.shape[3]};
  if (op.w.shape.rank() < 3 || op.w.shape.rank() > 4) return false;
  for (int i = 0; i < op.w.shape.rank(); ++i)
    if (op.w.shape[i] != tokens[i]) return false;
  return true;
}

// NaN passes: what is computed from it shows it.
template <class Real>
void expect_decays(const kernel::DeltaRule<Real>& op) {
  if (!is_shaped_like_decays(op)) return;
  const View<const Real>& w = op.w;
  const auto outside = [](Real x) { return x < 0 || x > 1; };
  const std::vector<int64_t> at = first_where(w, outside);
  if (at.empty()) return;
  const Real* found = w.data;
  std::string place;
  for (size_t i = 0; i < at.size(); ++i) {
    found += at[i] * w.stride[int(i)];
    place += cat(i ? ", " : "", at[i]);
  }
  fail(Fault::argument, "w(", place, "): expected a decay from 0 to 1, found ", *found,
       "; where w is a logarithm or comes before an activation, say so with decay=");
}

// Where Python has another name than the kernel.
template <class Real>
void expect_named_shapes(const Call<Real>& call) {
  const View<const Real>&k = call.op.k, &v = call.op.v;
  if (k.shape.rank() != 4 || v.shape.rank() != 4) return;
  const Shape states{v.shape[0], v.shape[2], v.shape[3], k.shape[3]};
  if (call.op.initial) expect_shape("state", call.op.initial, states);
  if (call.gradient.dfinal) expect_shape("dstate", call.gradient.dfinal, states);
  if (call.op.present) expect_shape("mask", call.op.present, {v.shape[0], v.shape[1]});
}

template <class T>
void copy(const View<T>& to, const View<const T>& from) {
  for (int64_t i = 0; i < to.shape[0]; ++i)
    for (int64_t h = 0; h < to.shape[1]; ++h)
      for (int64_t v = 0; v < to.shape[2]; ++v)
        for (int64_t k = 0; k < to.shape[3]; ++k) to(i, h, v, k) = from ? from(i, h, v, k) : T(0);
}

// Without tokens, or without heads: the state stays.
template <class Real>
bool has_no_work(const Call<Real>& call) {
  const View<const Real>& v = call.op.v;
  return v.shape.rank() == 4 && (v.shape[0] == 0 || v.shape[1] == 0 || v.shape[2] == 0);
}

// Of the forward pass, about.
template <class Real>
int64_t multiplications(const kernel::DeltaRule<Real>& op) {
  return op.k.shape.rank() == 4 ? 4 * op.v.shape.elements() * op.k.shape[3] : 0;
}

template <class Real>
kernel::DeltaRule<Real> with_positions(const Call<Real>& call) {
  kernel::DeltaRule<Real> op = call.op;
  if (!call.position.empty()) op.position = {call.position.data(), {int64_t(call.position.size())}};
  return op;
}

template <class T>
void cut(View<T>& view, int dimension, int64_t from, int64_t count) {
  if (view) view = view.slice(dimension, from, count);
}

template <class Real>
void expect_texts(const Call<Real>& call) {
  const std::vector<int64_t>& ends = call.cu_seqlens;
  const kernel::DeltaRule<Real>& op = call.op;
  const auto texts = int64_t(ends.size()) - 1;
  if (op.v.shape.rank() != 4 || op.v.shape[0] != 1)
    fail(Fault::argument, "v: expected (1, time, head, channel) with cu_seqlens, found ",
         op.v.shape);
  if (ends.front() != 0 || ends.back() != op.v.shape[1] || !std::ranges::is_sorted(ends))
    fail(Fault::argument, "cu_seqlens: expected ascending numbers from 0 to ", op.v.shape[1],
         ", found ", ends.front(), " to ", ends.back());
  if (!call.position.empty() && int64_t(call.position.size()) != texts)
    fail(Fault::argument, "position: expected one for each of ", texts, " texts, found ",
         call.position.size());
  const int64_t chunks =
      python::chunks_ending(call.position, ends, op.v.shape[1], std::max<int64_t>(op.chunk, 1));
  if (op.tau) expect_shape("tau", op.tau, {1, chunks, op.v.shape[2]});
  if (op.neutralize) expect_shape("neutralize", op.neutralize, {1, chunks});
  for (const auto& [name, state] : {std::pair{"state", op.initial},
                                    {"final_state", View<const Real>(op.final_state)},
                                    {"dstate", call.gradient.dfinal},
                                    {"dinitial", View<const Real>(call.gradient.dinitial)}})
    if (state && (state.shape.rank() != 4 || state.shape[0] != texts))
      fail(Fault::argument, name, ": expected (", texts, ", head, value, key), found ",
           state.shape);
  // The rest is checked text by text, where each slice must have a time to cut.
  for (const View<const Real>* view : {&op.r, &op.w, &op.k, &op.v, &op.a, &op.b, &op.beta})
    if (*view && (view->shape.rank() < 2 || view->shape[1] != op.v.shape[1]))
      fail(Fault::argument, "inputs: expected ", op.v.shape[1], " tokens each, found ",
           view->shape);
  if (op.present) expect_shape("mask", op.present, {1, op.v.shape[1]});
}

// The call for one text of cu_seqlens.
template <class Real>
Call<Real> text_of(const Call<Real>& call, int64_t text, int64_t first_chunk, int64_t chunks) {
  Call<Real> one = call;
  one.cu_seqlens.clear();
  one.position = {call.position.empty() ? 0 : call.position[size_t(text)]};
  const int64_t from = call.cu_seqlens[size_t(text)],
                count = call.cu_seqlens[size_t(text) + 1] - from;
  kernel::DeltaRule<Real>& op = one.op;
  kernel::DeltaRuleGradient<Real>& g = one.gradient;
  for (View<const Real>* view : {&op.r, &op.w, &op.k, &op.v, &op.a, &op.b, &op.beta, &g.dy})
    cut(*view, 1, from, count);
  for (View<Real>* view : {&op.y, &g.dr, &g.dw, &g.dk, &g.dv, &g.da, &g.db, &g.dbeta})
    cut(*view, 1, from, count);
  cut(op.present, 1, from, count);
  cut(op.tau, 1, first_chunk, chunks);
  cut(op.neutralize, 1, first_chunk, chunks);
  cut(g.dtau, 1, first_chunk, chunks);
  cut(op.initial, 0, text, 1);
  cut(op.final_state, 0, text, 1);
  cut(g.dfinal, 0, text, 1);
  cut(g.dinitial, 0, text, 1);
  return one;
}

// Calls body for each text, or once.
template <class Real, class Body>
void each_text(const Call<Real>& call, const Body& body) {
  if (call.cu_seqlens.empty()) {
    expect_named_shapes(call);
    return body(call);
  }
  expect_texts(call);
  int64_t chunk = 0;
  for (int64_t text = 0; text + 1 < int64_t(call.cu_seqlens.size()); ++text) {
    const int64_t time = call.cu_seqlens[size_t(text) + 1] - call.cu_seqlens[size_t(text)];
    const int64_t position = call.position.empty() ? 0 : call.position[size_t(text)];
    const int64_t chunks =
        kernel::chunks_ending(position, time, std::max<int64_t>(call.op.chunk, 1));
    const Call<Real> one = text_of(call, text, chunk, chunks);
    expect_named_shapes(one);
    body(one);
    chunk += chunks;
  }
}

}  // namespace

int64_t chunks_ending(const std::vector<int64_t>& position, const std::vector<int64_t>& cu_seqlens,
                      int64_t time, int64_t chunk) {
  if (chunk < 1) fail(Fault::argument, "chunk: expected at least 1, found ", chunk);
  const auto start = [&](size_t i) {
    if (i < position.size() && position[i] < 0)
      fail(Fault::argument, "position(", i, "): expected 0 or more, found ", position[i]);
    return i < position.size() ? position[i] : 0;
  };
  int64_t count = 0;
  for (size_t text = 0; text + 1 < cu_seqlens.size(); ++text)
    count += kernel::chunks_ending(start(text), cu_seqlens[text + 1] - cu_seqlens[text], chunk);
  if (!cu_seqlens.empty()) return count;
  for (size_t b = 0; b < std::max<size_t>(position.size(), 1); ++b)
    count = std::max(count, kernel::chunks_ending(start(b), time, chunk));
  return count;
}

template <class Real>
void forward(const Call<Real>& call, Compute how) {
  expect_decays(call.op);
  const auto run = [&](const auto& body) {
    each_text(call, [&](const Call<Real>& one) {
      if (!has_no_work(one)) return body(with_positions(one));
      if (one.op.final_state) copy<Real>(one.op.final_state, one.op.initial);
    });
  };
  if constexpr (std::is_same_v<Real, float>)
    if (how == Compute::kernels)
      return with_worker_threads(multiplications(call.op), [&](ThreadPool& threads) {
        run([&](const auto& op) { kernel::delta_rule(op, {threads}); });
      });
  run([](const auto& op) { kernel::reference::delta_rule(op); });
}

template <class Real>
void backward(const Call<Real>& call, Compute how) {
  const auto run = [&](const auto& body) {
    each_text(call, [&](const Call<Real>& one) {
      if (!has_no_work(one)) return body(with_positions(one), one.gradient);
      if (one.gradient.dinitial) copy<Real>(one.gradient.dinitial, one.gradient.dfinal);
    });
  };
  if constexpr (std::is_same_v<Real, float>)
    if (how == Compute::kernels)
      return with_worker_threads(multiplications(call.op), [&](ThreadPool& threads) {
        run([&](const auto& op, const auto& gradient) {
          kernel::delta_rule_backward(op, gradient, {threads});
        });
      });
  run([](const auto& op, const auto& gradient) {
    kernel::reference::delta_rule_backward(op, gradient);
  });
}

template void forward(const Call<float>&, Compute);
template void forward(const Call<double>&, Compute);
template void backward(const Call<float>&, Compute);
template void backward(const Call<double>&, Compute);

}  // namespace deltasane::python
