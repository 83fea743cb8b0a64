#include "python/ops/direct_calls.h"

#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string_view>

#include "python/ops/arrays.h"
#include "python/ops/gpu_calls.h"
#include "python/ops/recurrence.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::python {
namespace {

// Places in the arguments of the operators (python/deltasane/ops/_torch.py).
enum Argument {
  r,
  w,
  k,
  v,
  a,
  b,
  beta,
  tau,
  state,
  mask,
  neutralize,
  position,
  cu_seqlens,
  chunk,
  rule,
  definition,
  keep
};
constexpr int places[] = {r, w, k, v, a, b, tau, state};  // what a call is given, in its own order
constexpr size_t count = std::size(places);
constexpr int gpu_head = 64, gpu_chunk = 16;

struct Direct {
  std::array<Array, count> inputs;  // without data: not given
  std::vector<int64_t> position;
  int64_t chunk = 0;

  const Array& at(Argument which) const {
    return inputs[size_t(std::ranges::find(places, int(which)) - places)];
  }
  int64_t batch() const { return at(v).shape[0]; }
  int64_t time() const { return at(v).shape[1]; }
  int64_t heads() const { return at(v).shape[2]; }
  int64_t channels() const { return at(v).shape[3]; }
  int64_t start() const { return position.empty() ? 0 : position[0]; }
  int device() const { return at(v).device; }
  Shape states() const { return {batch(), heads(), channels(), channels()}; }
  bool starts_tiles() const { return start() % gpu_chunk == 0 && chunk == gpu_chunk; }
};

// Without Python's lock.
void compute(const auto& body) {
  const nb::gil_scoped_release released;
  body();
}

// The arguments of an operator; some may come before them.
class Arguments {
 public:
  explicit Arguments(const nb::tuple& all, size_t before = 0) : all_(all), before_(before) {}
  nb::handle operator[](int place) const { return all_[before_ + size_t(place)]; }
  bool is_given(int place) const { return !(*this)[place].is_none(); }
  size_t size() const { return all_.size() - before_; }

 private:
  const nb::tuple& all_;
  size_t before_;
};

class DirectCalls {
 public:
  // on_gpu: whether calls on a GPU are taken
  DirectCalls(std::unique_ptr<ArrayLibrary> library, bool on_gpu)
      : library_(std::move(library)), on_gpu_(on_gpu && built_with_cuda) {}

  bool is_usual(const nb::tuple& all) const {
    Direct call;
    return read(Arguments(all), call);
  }

  // y, final state, kept states or None. Or True: a gradient is needed, and `with_gradients` says
  // that one can be had.
  nb::object forward(const nb::tuple& all, bool with_gradients) const {
    const Arguments arguments(all);
    Direct call;
    if (!read(arguments, call)) return nb::none();
    if (with_gradients)
      for (const int place : places)
        if (arguments.is_given(place) && library_->requires_gradient(arguments[place]))
          return nb::bool_(true);
    const nb::object y = library_->empty_like(arguments[v]);
    const nb::object final_state = arguments.is_given(state)
                                       ? library_->empty_like(arguments[state])
                                       : library_->empty(arguments[w], call.states());
    if (call.device() == Array::cpu) {
      Call<float> run = cpu_call(call);
      run.op.y = new_view(y), run.op.final_state = new_view(final_state);
      compute([&] { python::forward(run, Compute::kernels); });
      return nb::make_tuple(y, final_state, nb::none());
    }
    nb::object kept = nb::none();
    if constexpr (built_with_cuda) {
      if (nb::cast<bool>(arguments[keep]) && call.starts_tiles()) {
        const int64_t floats = gpu_kept_floats(call.batch(), call.time(), call.heads());
        kept = library_->empty(arguments[w], {floats});
      }
      nb::list scratch;
      const GpuCall run = gpu_call(call, arguments[w], kept, scratch);
      gpu_forward(run, gpu_memory(new_array(y)), gpu_floats(new_array(final_state)));
    }
    return nb::make_tuple(y, final_state, kept);
  }

  // arguments: dy, dstate, then those of forward with `kept` and `wanted` in place of keep. Gradients
  // of the arrays up to the state; None where it is not wanted.
  nb::object backward(const nb::tuple& all) const {
    const Arguments arguments(all, 2);
    Direct call;
    Array dy, dfinal;
    const bool on_state = !all[1].is_none();
    if (!read(arguments, call) || !library_->read(all[0], dy)) return nb::none();
    if (on_state && !library_->read(all[1], dfinal)) return nb::none();
    if (!is_like(call.at(v), dy)) return nb::none();
    if (on_state && !(is_float(dfinal, call) && dfinal.shape == call.states())) return nb::none();
    const nb::handle kept = arguments[keep];
    const nb::object wanted = nb::borrow(arguments[keep + 1]);
    const bool on_cpu = call.device() == Array::cpu;

    nb::object made[count];
    nb::list found;
    for (int i = 0, input = 0; i <= state; ++i) {
      nb::object gradient = nb::none();
      if (i != beta) {
        const bool is_wanted = nb::cast<bool>(wanted[i]) && arguments.is_given(i);
        if (is_wanted || (!on_cpu && arguments.is_given(i)))  // a GPU's kernels compute all
          made[input] = library_->empty_like(arguments[i]);
        if (is_wanted) gradient = made[input];
        ++input;
      }
      found.append(gradient);
    }
    if (on_cpu) {
      Call<float> run = cpu_call(call);
      kernel::DeltaRuleGradient<float>& g = run.gradient;
      g.dy = {static_cast<const float*>(dy.data), dy.shape};
      if (on_state) g.dfinal = {static_cast<const float*>(dfinal.data), dfinal.shape};
      View<float>* const results[] = {&g.dr, &g.dw, &g.dk,   &g.dv,
                                      &g.da, &g.db, &g.dtau, &g.dinitial};
      for (size_t i = 0; i < count; ++i)
        if (made[i]) *results[i] = new_view(made[i]);
      compute([&] { python::backward(run, Compute::kernels); });
      return found;
    }
    if constexpr (built_with_cuda) {
      std::array<void*, count> results{};
      for (size_t i = 0; i < count; ++i)
        if (made[i]) results[i] = gpu_memory(new_array(made[i]));
      nb::list scratch;
      const GpuCall run = gpu_call(call, arguments[w], kept, scratch);
      gpu_backward(run, gpu_memory(dy), gpu_floats(dfinal), results);
    }
    return found;
  }

 private:
  static bool is_like(const Array& one, const Array& other) {
    return one.number == other.number && one.device == other.device && one.shape == other.shape;
  }
  static bool is_float(const Array& array, const Direct& call) {
    return array.number == Number::float32 && array.device == call.device();
  }

  // False where anything is unusual.
  bool read(const Arguments& arguments, Direct& call) const {
    if (!library_ || arguments.size() <= size_t(keep)) return false;
    for (const int place : {beta, mask, neutralize})
      if (arguments.is_given(place)) return false;
    if (nb::len(arguments[cu_seqlens]) != 0 || nb::cast<bool>(arguments[definition])) return false;
    if (std::string_view(nb::cast<const char*>(arguments[rule])) !=
        name_of(kernel::Rule::generalized))
      return false;
    for (size_t i = 0; i < count; ++i) {
      const int place = places[i];
      const bool is_read = arguments.is_given(place)
                               ? library_->read(arguments[place], call.inputs[i])
                               : place >= tau;
      if (!is_read) return false;
    }
    call.chunk = nb::cast<int64_t>(arguments[chunk]);
    call.position = nb::cast<std::vector<int64_t>>(arguments[position]);
    return has_usual_shapes(call);
  }

  bool has_usual_shapes(const Direct& call) const {
    const Array& values = call.at(v);
    if (values.shape.rank() != 4 || values.shape.elements() == 0 || call.chunk < 1) return false;
    for (const Argument which : {r, k, a, b})
      if (!is_like(values, call.at(which))) return false;
    if (!is_float(call.at(w), call) || call.at(w).shape != values.shape) return false;
    const auto start = [&](int64_t p) { return p == call.start() && p >= 0; };
    if (!call.position.empty() && (int64_t(call.position.size()) != call.batch() ||
                                   !std::ranges::all_of(call.position, start)))
      return false;
    const int64_t chunks = kernel::chunks_ending(call.start(), call.time(), call.chunk);
    const Array &bound = call.at(tau), &initial = call.at(state);
    if (bound.data &&
        !(is_float(bound, call) && bound.shape == Shape{call.batch(), chunks, call.heads()}))
      return false;
    if (initial.data && !(is_float(initial, call) && initial.shape == call.states())) return false;
    if (call.device() == Array::cpu) return values.number == Number::float32;
    return on_gpu_ && call.channels() == gpu_head &&
           call.batch() * call.time() * call.heads() < int64_t(1) << 31;
  }

  static Call<float> cpu_call(const Direct& call) {
    Call<float> made;
    kernel::DeltaRule<float>& op = made.op;
    View<const float>* const inputs[] = {&op.r, &op.w, &op.k,   &op.v,
                                         &op.a, &op.b, &op.tau, &op.initial};
    for (size_t i = 0; i < count; ++i)
      *inputs[i] = {static_cast<const float*>(call.inputs[i].data), call.inputs[i].shape};
    op.chunk = call.chunk;
    made.position = call.position;
    return made;
  }

  // scratch: keeps what is allocated
  GpuCall gpu_call(const Direct& call, nb::handle like, nb::handle kept, nb::list& scratch) const {
    GpuCall made{};
    made.place = {call.device(), library_->stream(call.device()), {}};
    made.place.allocate = [this, like, &scratch](int64_t floats) {
      scratch.append(library_->empty(like, {floats}));
      return gpu_floats(new_array(scratch[scratch.size() - 1]));
    };
    made.is_bf16 = call.at(v).number == Number::bfloat16;
    made.batch = call.batch(), made.time = call.time(), made.heads = call.heads();
    made.position = call.start(), made.chunk = call.chunk;
    for (size_t i = 0; i < count; ++i) made.inputs[i] = gpu_memory(call.inputs[i]);
    Array states;
    if (!kept.is_none() && library_->read(kept, states)) {
      made.kept = gpu_floats(states);
      made.kept_floats = states.shape.elements();
    }
    return made;
  }

  // Of arrays that were made here.
  Array new_array(nb::handle made) const {
    Array found;
    require(library_->read(made, found), "a new array is packed");
    return found;
  }
  // Null: not given, or nothing in it.
  static void* gpu_memory(const Array& array) {
    return array.shape.elements() ? array.data : nullptr;
  }
  static float* gpu_floats(const Array& array) { return static_cast<float*>(gpu_memory(array)); }
  View<float> new_view(nb::handle made) const {
    const Array found = new_array(made);
    return {static_cast<float*>(found.data), found.shape};
  }

  const std::unique_ptr<ArrayLibrary> library_;
  const bool on_gpu_;
};

}  // namespace

void bind_direct_calls(nb::module_& m) {
  nb::class_<DirectCalls>(m, "DirectCalls")
      .def("is_usual", &DirectCalls::is_usual, nb::arg("arguments"))
      .def("forward", &DirectCalls::forward, nb::arg("arguments"), nb::arg("with_gradients"))
      .def("backward", &DirectCalls::backward, nb::arg("arguments"));
  m.def(
      "direct_torch_calls",
      [](nb::handle exchange, nb::object tensor, nb::object parameter, nb::object empty_like,
         bool on_gpu) {
        return std::make_unique<DirectCalls>(
            torch_arrays(exchange, std::move(tensor), std::move(parameter), std::move(empty_like)),
            on_gpu);
      },
      nb::arg("exchange").none(), nb::arg("tensor"), nb::arg("parameter"), nb::arg("empty_like"),
      nb::arg("on_gpu"));
  m.def(
      "direct_numpy_calls",
      [](nb::object array, nb::object float32, nb::object empty) {
        return std::make_unique<DirectCalls>(
            numpy_arrays(std::move(array), std::move(float32), std::move(empty)), false);
      },
      nb::arg("array"), nb::arg("float32"), nb::arg("empty"));
}

}  // namespace deltasane::python
