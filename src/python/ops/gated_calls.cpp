#include "python/ops/gated_calls.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include "kernel/delta_rule/gated_cuda/gated_rule.h"
#include "python/ops/gpu_place.h"
#include "python/ops/rule_names.h"

namespace deltasane::python {
namespace {

namespace nb = nanobind;
using kernel::cuda::GatedRule;

// sizes: batch, time, key heads, heads, keys, values, position; inputs: r, k, v, g, beta, tau, state;
// kept: the states for the backward pass, of so many floats, 0: none.
GatedRule op_of(const std::string& rule, const std::array<int64_t, 7>& sizes,
                const nb::tuple& inputs, nb::handle kept, int64_t kept_floats) {
  GatedRule op{.rule = rule_named(rule)};
  const auto [batch, time, key_heads, heads, keys, values, position] = sizes;
  if (batch < 1 || time < 1 || key_heads < 1 || heads < 1 || heads % key_heads || position < 0)
    fail(Fault::argument,
         "r: expected at least one token, heads of v that are a multiple of r's and ",
         "a position, found (", batch, ", ", time, ", ", key_heads, "), ", heads, " heads of v at ",
         position);
  op.batch = batch, op.time = time, op.key_heads = key_heads, op.heads = heads;
  op.keys = keys, op.values = values, op.position = position;
  op.r = pointer<const bf16>(inputs[0]), op.k = pointer<const bf16>(inputs[1]);
  op.v = pointer<const bf16>(inputs[2]), op.g = pointer<const float>(inputs[3]);
  op.beta = pointer<const float>(inputs[4]), op.tau = pointer<const float>(inputs[5]);
  op.initial = pointer<const float>(inputs[6]);
  if (op.rule == kernel::Rule::generalized || !(op.r && op.k && op.v && op.beta) ||
      bool(op.g) != (op.rule != kernel::Rule::deltanet))
    fail(Fault::argument, "r, k, v, beta, w: expected those of the rule ", rule);
  if (const int64_t needed = kernel::cuda::gated_rule_states(op);
      kept_floats && kept_floats < needed)
    fail(Fault::argument, "kept states: expected ", needed, " floats, found ", kept_floats);
  if (kept_floats) op.states = pointer<float>(kept);
  return op;
}

}  // namespace

void bind_gated_calls(nb::module_& m) {
  // results: y, final state, kept states
  m.def(
      "gpu_gated_forward",
      [](int device, uintptr_t stream, const nb::callable& allocate, const std::string& rule,
         const std::array<int64_t, 7>& sizes, const nb::tuple& inputs, const nb::tuple& results,
         int64_t kept) {
        GatedRule op = op_of(rule, sizes, inputs, results[2], kept);
        op.y = pointer<bf16>(results[0]), op.final_state = pointer<float>(results[1]);
        if (!op.y) fail(Fault::argument, "y: expected memory, found none");
        run_at(place_of(device, stream, allocate),
               [&](auto& scratch, const Gpu& gpu) { kernel::cuda::gated_rule(op, scratch, gpu); });
      },
      nb::arg("device"), nb::arg("stream"), nb::arg("allocate"), nb::arg("rule"), nb::arg("sizes"),
      nb::arg("inputs"), nb::arg("results"), nb::arg("kept"));
  // given: dy, dstate, kept states; results: dr, dk, dv, dg, dbeta, dtau, dstate
  m.def(
      "gpu_gated_backward",
      [](int device, uintptr_t stream, const nb::callable& allocate, const std::string& rule,
         const std::array<int64_t, 7>& sizes, const nb::tuple& inputs, const nb::tuple& given,
         int64_t kept, const nb::tuple& results) {
        const GatedRule op = op_of(rule, sizes, inputs, given[2], kept);
        kernel::cuda::GatedRuleGradient g;
        g.dy = pointer<const bf16>(given[0]), g.dfinal = pointer<const float>(given[1]);
        g.dr = pointer<bf16>(results[0]), g.dk = pointer<bf16>(results[1]);
        g.dv = pointer<bf16>(results[2]), g.dg = pointer<float>(results[3]);
        g.dbeta = pointer<float>(results[4]), g.dtau = pointer<float>(results[5]);
        g.dinitial = pointer<float>(results[6]);
        if (!(g.dy && g.dr && g.dk && g.dv && g.dbeta && (!op.g || g.dg) && (!op.tau || g.dtau)))
          fail(Fault::argument, "gradients: expected memory for all of them, found none for one");
        run_at(place_of(device, stream, allocate), [&](auto& scratch, const Gpu& gpu) {
          kernel::cuda::gated_rule_backward(op, g, scratch, gpu);
        });
      },
      nb::arg("device"), nb::arg("stream"), nb::arg("allocate"), nb::arg("rule"), nb::arg("sizes"),
      nb::arg("inputs"), nb::arg("given"), nb::arg("kept"), nb::arg("results"));
}

}  // namespace deltasane::python
