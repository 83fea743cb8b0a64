#include "python/ops/gpu_calls.h"

#include <map>
#include <memory>
#include <mutex>

#include "kernel/delta_rule/cuda.h"
#include "tensor/cuda/current_gpu.h"

namespace deltasane::python {
namespace {

namespace nb = nanobind;

// Where a call runs. allocate(floats) returns the address of memory on the device.
struct Place {
  int device;
  uintptr_t stream;
  const nb::callable& allocate;
};

// The properties of a device are found once.
const Gpu& device_of(int index) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<Gpu>> devices;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Gpu>& found = devices[index];
  if (!found) found = std::make_unique<Gpu>(index);
  return *found;
}

template <class T>
T* pointer(const nb::tuple& addresses, size_t i) {
  return addresses[i].is_none() ? nullptr
                                : reinterpret_cast<T*>(nb::cast<uintptr_t>(addresses[i]));
}

struct Sizes {
  int64_t batch, time, heads, position, chunk;
};

// inputs: r, w, k, v, a, b, tau, state: addresses of packed tensors, or None.
template <class Real>
kernel::cuda::DeltaRule<Real> op_of(const Sizes& sizes, const nb::tuple& inputs) {
  if (sizes.batch < 1 || sizes.time < 1 || sizes.heads < 1 || sizes.chunk < 1 || sizes.position < 0)
    fail(Fault::argument, "r: expected at least one token, head and position 0, found (",
         sizes.batch, ", ", sizes.time, ", ", sizes.heads, ") at ", sizes.position);
  kernel::cuda::DeltaRule<Real> op;
  op.batch = sizes.batch, op.time = sizes.time, op.heads = sizes.heads;
  op.position = sizes.position, op.chunk = sizes.chunk;
  op.r = pointer<const Real>(inputs, 0), op.w = pointer<const float>(inputs, 1);
  op.k = pointer<const Real>(inputs, 2), op.v = pointer<const Real>(inputs, 3);
  op.a = pointer<const Real>(inputs, 4), op.b = pointer<const Real>(inputs, 5);
  op.tau = pointer<const float>(inputs, 6), op.initial = pointer<const float>(inputs, 7);
  if (!(op.r && op.w && op.k && op.v && op.a && op.b))
    fail(Fault::argument, "r, w, k, v, a, b: expected all of them, found none for one");
  return op;
}

kernel::cuda::DeltaRuleScratch scratch_of(const Place& place) {
  return kernel::cuda::DeltaRuleScratch([&place](int64_t floats) {
    return reinterpret_cast<float*>(nb::cast<uintptr_t>(place.allocate(floats)));
  });
}

template <class Body>
void run_at(const Place& place, const Body& body) {
  const CurrentGpu current(place.device);  // the caller's may be another
  const Gpu gpu(device_of(place.device), reinterpret_cast<CUstream_st*>(place.stream));
  kernel::cuda::DeltaRuleScratch scratch = scratch_of(place);
  body(scratch, gpu);
}

void expect_room(const Sizes& n, int64_t kept) {
  if (const int64_t needed = kernel::cuda::delta_rule_states(n.batch, n.time, n.heads);
      kept && kept < needed)
    fail(Fault::argument, "kept states: expected ", needed, " floats, found ", kept);
}

// results: y, final state, kept states; kept: floats there, 0: none.
template <class Real>
void forward(const Place& place, const Sizes& sizes, const nb::tuple& inputs,
             const nb::tuple& results, int64_t kept) {
  auto op = op_of<Real>(sizes, inputs);
  op.y = pointer<Real>(results, 0), op.final_state = pointer<float>(results, 1);
  expect_room(sizes, kept);
  if (kept) op.states = pointer<float>(results, 2);
  run_at(place, [&](auto& scratch, const Gpu& gpu) { kernel::cuda::delta_rule(op, scratch, gpu); });
}

// given: dy, dstate, kept states; results: dr, dw, dk, dv, da, db, dtau, dstate.
template <class Real>
void backward(const Place& place, const Sizes& sizes, const nb::tuple& inputs,
              const nb::tuple& given, int64_t kept, const nb::tuple& results) {
  auto op = op_of<Real>(sizes, inputs);
  if (sizes.position % 16 != 0 || sizes.chunk != 16)
    fail(Fault::argument, "position: expected a multiple of 16 and chunks of 16 where gradients ",
         "are wanted on a GPU, found ", sizes.position, " and ", sizes.chunk);
  expect_room(sizes, kept);
  if (kept) op.states = pointer<float>(given, 2);
  kernel::cuda::DeltaRuleGradient<Real> g;
  g.dy = pointer<const Real>(given, 0), g.dfinal = pointer<const float>(given, 1);
  g.dr = pointer<Real>(results, 0), g.dw = pointer<float>(results, 1);
  g.dk = pointer<Real>(results, 2), g.dv = pointer<Real>(results, 3);
  g.da = pointer<Real>(results, 4), g.db = pointer<Real>(results, 5);
  g.dtau = pointer<float>(results, 6), g.dinitial = pointer<float>(results, 7);
  if (!(g.dy && g.dr && g.dw && g.dk && g.dv && g.da && g.db && (!op.tau || g.dtau)))
    fail(Fault::argument, "gradients: expected memory for all of them, found none for one");
  run_at(place, [&](auto& scratch, const Gpu& gpu) {
    kernel::cuda::delta_rule_backward(op, g, scratch, gpu);
  });
}

}  // namespace

void bind_gpu_calls(nb::module_& m) {
  m.def("gpu_states", &kernel::cuda::delta_rule_states, nb::arg("batch"), nb::arg("time"),
        nb::arg("heads"));
  m.def(
      "gpu_forward",
      [](int device, uintptr_t stream, const nb::callable& allocate, bool is_bf16, int64_t batch,
         int64_t time, int64_t heads, int64_t position, int64_t chunk, const nb::tuple& inputs,
         const nb::tuple& results, int64_t kept) {
        (is_bf16 ? forward<bf16> : forward<float>)({device, stream, allocate},
                                                   {batch, time, heads, position, chunk}, inputs,
                                                   results, kept);
      },
      nb::arg("device"), nb::arg("stream"), nb::arg("allocate"), nb::arg("is_bf16"),
      nb::arg("batch"), nb::arg("time"), nb::arg("heads"), nb::arg("position"), nb::arg("chunk"),
      nb::arg("inputs"), nb::arg("results"), nb::arg("kept"));
  m.def(
      "gpu_backward",
      [](int device, uintptr_t stream, const nb::callable& allocate, bool is_bf16, int64_t batch,
         int64_t time, int64_t heads, int64_t position, int64_t chunk, const nb::tuple& inputs,
         const nb::tuple& given, int64_t kept, const nb::tuple& results) {
        (is_bf16 ? backward<bf16> : backward<float>)({device, stream, allocate},
                                                     {batch, time, heads, position, chunk}, inputs,
                                                     given, kept, results);
      },
      nb::arg("device"), nb::arg("stream"), nb::arg("allocate"), nb::arg("is_bf16"),
      nb::arg("batch"), nb::arg("time"), nb::arg("heads"), nb::arg("position"), nb::arg("chunk"),
      nb::arg("inputs"), nb::arg("given"), nb::arg("kept"), nb::arg("results"));
}

}  // namespace deltasane::python
