// The extension deltasane._ops: the operators, without the engine and without its libraries. It is
// private to python/deltasane/ops/, which checks types and devices and makes the outputs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "kernel/sane/tau.h"
#include "python/ops/direct_calls.h"
#include "python/ops/gated_calls.h"
#include "python/ops/gpu_calls.h"
#include "python/ops/recurrence.h"
#include "python/ops/rule_names.h"
#include "python/ops/translate_errors.h"
#include "python/ops/views.h"
#include "python/ops/worker_threads.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::python {
namespace {

using Numbers = std::vector<int64_t>;

// arrays: r, w, k, v, a, b, beta, tau, state, mask, neutralize.
template <class Real>
Call<Real> call_of(const std::string& rule, const nb::tuple& arrays, const Numbers& position,
                   const Numbers& cu_seqlens, int64_t chunk) {
  Call<Real> call;
  kernel::DeltaRule<Real>& op = call.op;
  op.rule = rule_named(rule);
  View<const Real>* const inputs[] = {&op.r, &op.w,    &op.k,   &op.v,      &op.a,
                                      &op.b, &op.beta, &op.tau, &op.initial};
  size_t i = 0;
  for (View<const Real>* input : inputs) *input = view_of<const Real>(arrays[i++]);
  op.present = view_of<const uint8_t>(arrays[i++]);
  op.neutralize = view_of<const uint8_t>(arrays[i++]);
  op.chunk = chunk;
  call.position = position, call.cu_seqlens = cu_seqlens;
  return call;
}

// results: y, final state.
template <class Real>
void run_forward(const std::string& rule, const nb::tuple& arrays, const Numbers& position,
                 const Numbers& cu_seqlens, int64_t chunk, const nb::tuple& results, Compute how) {
  Call<Real> call = call_of<Real>(rule, arrays, position, cu_seqlens, chunk);
  call.op.y = view_of<Real>(results[0]);
  call.op.final_state = view_of<Real>(results[1]);
  const nb::gil_scoped_release released;
  forward(call, how);
}

// gradients: dy, dfinal; results: dr, dw, dk, dv, da, db, dbeta, dtau, dstate.
template <class Real>
void run_backward(const std::string& rule, const nb::tuple& arrays, const Numbers& position,
                  const Numbers& cu_seqlens, int64_t chunk, const nb::tuple& gradients,
                  const nb::tuple& results, Compute how) {
  Call<Real> call = call_of<Real>(rule, arrays, position, cu_seqlens, chunk);
  kernel::DeltaRuleGradient<Real>& g = call.gradient;
  g.dy = view_of<const Real>(gradients[0]);
  g.dfinal = view_of<const Real>(gradients[1]);
  View<Real>* const outputs[] = {&g.dr, &g.dw,    &g.dk,   &g.dv,      &g.da,
                                 &g.db, &g.dbeta, &g.dtau, &g.dinitial};
  size_t i = 0;
  for (View<Real>* output : outputs) *output = view_of<Real>(results[i++]);
  const nb::gil_scoped_release released;
  backward(call, how);
}

void tau_of_products(nb::handle z, double alpha, nb::handle tau) {
  const View<const float> from = view_of<const float>(z);
  const View<float> to = view_of<float>(tau);
  expect_shape("tau", to, from.shape);
  kernel::tau_forward({from.data, size_t(from.shape.elements())}, alpha,
                      {to.data, size_t(to.shape.elements())});
}

}  // namespace
}  // namespace deltasane::python

NB_MODULE(_ops, m) {
  using namespace deltasane;
  using namespace deltasane::python;
  m.doc() = "Operators of deltasane.ops. An array is of numpy, (address, shape, strides) or None.";
  nb::set_leak_warnings(false);  // of what torch still holds when the process ends
  translate_errors();
  m.attr("cuda") = built_with_cuda;
  bind_direct_calls(m);
  if constexpr (built_with_cuda) bind_gpu_calls(m), bind_gated_calls(m);
  m.def("set_threads", &python::set_threads, nb::arg("count"));
  m.def("threads", &python::threads);
  m.def("tau", &tau_of_products, nb::arg("z"), nb::arg("alpha"), nb::arg("tau"));

  m.def(
      "forward",
      [](const std::string& rule, const nb::tuple& arrays, const Numbers& position,
         const Numbers& cu_seqlens, int64_t chunk, const nb::tuple& results) {
        run_forward<float>(rule, arrays, position, cu_seqlens, chunk, results, Compute::kernels);
      },
      nb::arg("rule"), nb::arg("arrays"), nb::arg("position"), nb::arg("cu_seqlens"),
      nb::arg("chunk"), nb::arg("results"));
  m.def(
      "backward",
      [](const std::string& rule, const nb::tuple& arrays, const Numbers& position,
         const Numbers& cu_seqlens, int64_t chunk, const nb::tuple& gradients,
         const nb::tuple& results) {
        run_backward<float>(rule, arrays, position, cu_seqlens, chunk, gradients, results,
                            Compute::kernels);
      },
      nb::arg("rule"), nb::arg("arrays"), nb::arg("position"), nb::arg("cu_seqlens"),
      nb::arg("chunk"), nb::arg("gradients"), nb::arg("results"));
  // By the definition: in float64, or in float32.
  m.def(
      "definition",
      [](bool float64, const std::string& rule, const nb::tuple& arrays, const Numbers& position,
         const Numbers& cu_seqlens, int64_t chunk, const nb::tuple& results) {
        (float64 ? run_forward<double> : run_forward<float>)(rule, arrays, position, cu_seqlens,
                                                             chunk, results, Compute::definition);
      },
      nb::arg("float64"), nb::arg("rule"), nb::arg("arrays"), nb::arg("position"),
      nb::arg("cu_seqlens"), nb::arg("chunk"), nb::arg("results"));
  m.def(
      "definition_backward",
      [](bool float64, const std::string& rule, const nb::tuple& arrays, const Numbers& position,
         const Numbers& cu_seqlens, int64_t chunk, const nb::tuple& gradients,
         const nb::tuple& results) {
        (float64 ? run_backward<double> : run_backward<float>)(rule, arrays, position, cu_seqlens,
                                                               chunk, gradients, results,
                                                               Compute::definition);
      },
      nb::arg("float64"), nb::arg("rule"), nb::arg("arrays"), nb::arg("position"),
      nb::arg("cu_seqlens"), nb::arg("chunk"), nb::arg("gradients"), nb::arg("results"));
}
