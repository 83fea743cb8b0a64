#include "python/ops/gpu_calls.h"

#include "kernel/delta_rule/cuda.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::python {
namespace {

namespace nb = nanobind;

template <class Real>
kernel::cuda::DeltaRule<Real> op_of(const GpuCall& call) {
  if (call.batch < 1 || call.time < 1 || call.heads < 1 || call.chunk < 1 || call.position < 0)
    fail(Fault::argument, "r: expected at least one token, head and position 0, found (",
         call.batch, ", ", call.time, ", ", call.heads, ") at ", call.position);
  if (const int64_t needed = gpu_kept_floats(call.batch, call.time, call.heads);
      call.kept_floats && call.kept_floats < needed)
    fail(Fault::argument, "kept states: expected ", needed, " floats, found ", call.kept_floats);
  kernel::cuda::DeltaRule<Real> op;
  op.batch = call.batch, op.time = call.time, op.heads = call.heads;
  op.position = call.position, op.chunk = call.chunk;
  const auto& [r, w, k, v, a, b, tau, state] = call.inputs;
  if (!(r && w && k && v && a && b))
    fail(Fault::argument, "r, w, k, v, a, b: expected all of them, found none for one");
  op.r = static_cast<const Real*>(r), op.w = static_cast<const float*>(w);
  op.k = static_cast<const Real*>(k), op.v = static_cast<const Real*>(v);
  op.a = static_cast<const Real*>(a), op.b = static_cast<const Real*>(b);
  op.tau = static_cast<const float*>(tau), op.initial = static_cast<const float*>(state);
  if (call.kept_floats) op.states = call.kept;
  return op;
}

template <class Real>
void forward(const GpuCall& call, void* y, float* final_state) {
  auto op = op_of<Real>(call);
  op.y = static_cast<Real*>(y), op.final_state = final_state;
  run_at(call.place,
         [&](auto& scratch, const Gpu& gpu) { kernel::cuda::delta_rule(op, scratch, gpu); });
}

template <class Real>
void backward(const GpuCall& call, const void* dy, const float* dfinal,
              const std::array<void*, 8>& results) {
  const auto op = op_of<Real>(call);
  if (call.position % 16 != 0 || call.chunk != 16)
    fail(Fault::argument, "position: expected a multiple of 16 and chunks of 16 where gradients ",
         "are wanted on a GPU, found ", call.position, " and ", call.chunk);
  const auto& [dr, dw, dk, dv, da, db, dtau, dstate] = results;
  if (!(dy && dr && dw && dk && dv && da && db && (!op.tau || dtau)))
    fail(Fault::argument, "gradients: expected memory for all of them, found none for one");
  kernel::cuda::DeltaRuleGradient<Real> g;
  g.dy = static_cast<const Real*>(dy), g.dfinal = dfinal;
  g.dr = static_cast<Real*>(dr), g.dw = static_cast<float*>(dw);
  g.dk = static_cast<Real*>(dk), g.dv = static_cast<Real*>(dv);
  g.da = static_cast<Real*>(da), g.db = static_cast<Real*>(db);
  g.dtau = static_cast<float*>(dtau), g.dinitial = static_cast<float*>(dstate);
  run_at(call.place, [&](auto& scratch, const Gpu& gpu) {
    kernel::cuda::delta_rule_backward(op, g, scratch, gpu);
  });
}

std::array<void*, 8> pointers(const nb::tuple& addresses) {
  std::array<void*, 8> found;
  for (size_t i = 0; i < found.size(); ++i) found[i] = pointer<void>(addresses[i]);
  return found;
}

// sizes: batch, time, heads, position, chunk; allocate(floats) returns the address of memory.
GpuCall call_of(int device, uintptr_t stream, const nb::callable& allocate, bool is_bf16,
                const std::array<int64_t, 5>& sizes, const nb::tuple& inputs, nb::handle kept,
                int64_t kept_floats) {
  const auto [batch, time, heads, position, chunk] = sizes;
  return {place_of(device, stream, allocate),
          is_bf16,
          batch,
          time,
          heads,
          position,
          chunk,
          pointers(inputs),
          pointer<float>(kept),
          kept_floats};
}

}  // namespace

int64_t gpu_kept_floats(int64_t batch, int64_t time, int64_t heads) {
  return kernel::cuda::delta_rule_states(batch, time, heads);
}

void gpu_forward(const GpuCall& call, void* y, float* final_state) {
  (call.is_bf16 ? forward<bf16> : forward<float>)(call, y, final_state);
}

void gpu_backward(const GpuCall& call, const void* dy, const float* dfinal,
                  const std::array<void*, 8>& results) {
  (call.is_bf16 ? backward<bf16> : backward<float>)(call, dy, dfinal, results);
}

void bind_gpu_calls(nb::module_& m) {
  m.def("gpu_states", &gpu_kept_floats, nb::arg("batch"), nb::arg("time"), nb::arg("heads"));
  // results: y, final state, kept states
  m.def(
      "gpu_forward",
      [](int device, uintptr_t stream, const nb::callable& allocate, bool is_bf16, int64_t batch,
         int64_t time, int64_t heads, int64_t position, int64_t chunk, const nb::tuple& inputs,
         const nb::tuple& results, int64_t kept) {
        gpu_forward(call_of(device, stream, allocate, is_bf16,
                            {batch, time, heads, position, chunk}, inputs, results[2], kept),
                    pointer<void>(results[0]), pointer<float>(results[1]));
      },
      nb::arg("device"), nb::arg("stream"), nb::arg("allocate"), nb::arg("is_bf16"),
      nb::arg("batch"), nb::arg("time"), nb::arg("heads"), nb::arg("position"), nb::arg("chunk"),
      nb::arg("inputs"), nb::arg("results"), nb::arg("kept"));
  // given: dy, dstate, kept states
  m.def(
      "gpu_backward",
      [](int device, uintptr_t stream, const nb::callable& allocate, bool is_bf16, int64_t batch,
         int64_t time, int64_t heads, int64_t position, int64_t chunk, const nb::tuple& inputs,
         const nb::tuple& given, int64_t kept, const nb::tuple& results) {
        gpu_backward(call_of(device, stream, allocate, is_bf16,
                             {batch, time, heads, position, chunk}, inputs, given[2], kept),
                     pointer<void>(given[0]), pointer<float>(given[1]), pointers(results));
      },
      nb::arg("device"), nb::arg("stream"), nb::arg("allocate"), nb::arg("is_bf16"),
      nb::arg("batch"), nb::arg("time"), nb::arg("heads"), nb::arg("position"), nb::arg("chunk"),
      nb::arg("inputs"), nb::arg("given"), nb::arg("kept"), nb::arg("results"));
}

}  // namespace deltasane::python
