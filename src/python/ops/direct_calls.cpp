#include "python/ops/direct_calls.h"

#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>

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

bool is_true(nb::handle object) {
  const int found = PyObject_IsTrue(object.ptr());
  if (found < 0) throw nb::python_error();
  return found;
}

class DirectCalls {
 public:
  // on_gpu: whether calls on a GPU are taken
  DirectCalls(std::unique_ptr<ArrayLibrary> library, bool on_gpu)
      : library_(std::move(library)), on_gpu_(on_gpu && built_with_cuda) {}

  // Whether `run` would take these arrays, where torch does not look.
  bool is_usual(const nb::tuple& arrays, nb::handle first, nb::handle chunk_size) const {
    Direct call;
    return read_given(arrays, first, chunk_size, call);
  }

  // What a caller gave: (y, final state), and where an array needs a gradient what `forward` gives.
  // None where anything is unusual, or something looks at what torch's dispatcher does.
  nb::object run(const nb::tuple& arrays, nb::handle first, nb::handle chunk_size, nb::handle decay,
                 nb::handle keeps) const {
    Direct call;
    if (!is_name(decay, "decay") || !library_ || library_->is_observed() ||
        !read_given(arrays, first, chunk_size, call))
      return nb::none();
    const bool has_gradients = library_->records_gradients() && needs_gradient(Arguments(arrays));
    const Results found = results_of(call, has_gradients && is_true(keeps));
    if (!has_gradients) return nb::make_tuple(found.y, found.final_state);
    return nb::make_tuple(found.y, found.final_state, found.kept, true);
  }

  // y, final state, kept states or None, and whether an array needs a gradient. with_gradients:
  // that is looked at, and states are kept only where one does.
  nb::object forward(const nb::tuple& all, bool with_gradients) const {
    const Arguments arguments(all);
    Direct call;
    if (!read(arguments, call)) return nb::none();
    const bool has_gradients = with_gradients && needs_gradient(arguments);
    const bool keeps = has_gradients == with_gradients && is_true(arguments[keep]);
    const Results found = results_of(call, keeps);
    return nb::make_tuple(found.y, found.final_state, found.kept, has_gradients);
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
    const nb::object wanted = nb::borrow(arguments[keep + 1]);
    const bool on_cpu = call.device() == Array::cpu;

    std::array<NewArray, count> made;
    nb::list found;
    for (int i = 0, input = 0; i <= state; ++i) {
      nb::object gradient = nb::none();
      if (i != beta) {
        const bool is_wanted = nb::cast<bool>(wanted[i]) && arguments.is_given(i);
        if (is_wanted || (!on_cpu && arguments.is_given(i)))  // a GPU's kernels compute all
          made[input] = empty_like(call.inputs[size_t(input)]);
        if (is_wanted) gradient = made[input].object;
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
        if (made[i].object) *results[i] = view_of_floats(made[i]);
      compute([&] { python::backward(run, Compute::kernels); });
      return found;
    }
    if constexpr (built_with_cuda) {
      std::array<void*, count> results{};
      for (size_t i = 0; i < count; ++i) results[i] = gpu_memory(made[i]);
      Array kept;
      if (arguments.is_given(keep) && !library_->read(arguments[keep], kept)) return nb::none();
      const Scratch scratch{*this, call};
      gpu_backward(gpu_call(call, kept, scratch), gpu_memory(dy), gpu_floats(dfinal), results);
    }
    return found;
  }

 private:
  struct Results {
    nb::object y, final_state, kept;  // kept: None where no states are kept
  };
  Results results_of(const Direct& call, bool keeps) const {
    const NewArray y = empty_like(call.at(v)), final_state = empty(call, call.states());
    NewArray kept;
    kept.object = nb::none();
    if (call.device() == Array::cpu) {
      Call<float> run = cpu_call(call);
      run.op.y = view_of_floats(y), run.op.final_state = view_of_floats(final_state);
      compute([&] { python::forward(run, Compute::kernels); });
    } else if constexpr (built_with_cuda) {
      if (keeps && call.starts_tiles())
        kept = empty(call, {gpu_kept_floats(call.batch(), call.time(), call.heads())});
      const Scratch scratch{*this, call};
      gpu_forward(gpu_call(call, kept, scratch), gpu_memory(y), gpu_floats(final_state));
    }
    return {y.object, final_state.object, kept.object};
  }

  bool needs_gradient(const Arguments& arguments) const {
    return std::ranges::any_of(places, [&](int place) {
      return arguments.is_given(place) && library_->requires_gradient(arguments[place]);
    });
  }

  static bool is_name(nb::handle object, const char* name) {
    return PyUnicode_CheckExact(object.ptr()) &&
           PyUnicode_CompareWithASCIIString(object.ptr(), name) == 0;
  }

  // Of an int from `least` to 2^62, so that sums of two are numbers of 64 bits.
  static bool read_number(nb::handle object, int64_t least, int64_t& number) {
    int overflow = 0;
    if (!PyLong_CheckExact(object.ptr())) return false;
    number = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    return !overflow && number >= least && number <= int64_t(1) << 62;
  }

  static bool is_like(const Array& one, const Array& other) {
    return one.number == other.number && one.device == other.device && one.shape == other.shape;
  }
  static bool is_float(const Array& array, const Direct& call) {
    return array.number == Number::float32 && array.device == call.device();
  }

  // The arrays, the position of the first token and the tokens of a chunk, as a caller gave them.
  bool read_given(const nb::tuple& arrays, nb::handle first, nb::handle chunk_size,
                  Direct& call) const {
    int64_t start = 0;
    if (!library_ || arrays.size() != size_t(position) || !read_number(first, 0, start) ||
        !read_number(chunk_size, 1, call.chunk) || !read_arrays(Arguments(arrays), call))
      return false;
    if (!has_tokens(call)) return false;  // and no batch to count
    if (start) call.position.assign(size_t(call.batch()), start);
    return has_usual_shapes(call);
  }

  // The arguments of an operator. False where anything is unusual.
  bool read(const Arguments& arguments, Direct& call) const {
    if (!library_ || arguments.size() <= size_t(keep)) return false;
    if (nb::len(arguments[cu_seqlens]) != 0 || is_true(arguments[definition])) return false;
    if (!is_name(arguments[rule], name_of(kernel::Rule::generalized))) return false;
    if (!read_arrays(arguments, call)) return false;
    call.chunk = nb::cast<int64_t>(arguments[chunk]);
    if (nb::len(arguments[position]) != 0)
      call.position = nb::cast<std::vector<int64_t>>(arguments[position]);
    return has_usual_shapes(call);
  }

  bool read_arrays(const Arguments& arguments, Direct& call) const {
    for (const int place : {beta, mask, neutralize})
      if (arguments.is_given(place)) return false;
    PyObject* const bound = arguments[tau].ptr();
    if (PyFloat_CheckExact(bound) || PyLong_CheckExact(bound)) return false;  // before all are read
    for (size_t i = 0; i < count; ++i) {
      const int place = places[i];
      const bool is_read = arguments.is_given(place)
                               ? library_->read(arguments[place], call.inputs[i])
                               : place >= tau;
      if (!is_read) return false;
    }
    return true;
  }

  static bool has_tokens(const Direct& call) {
    return call.at(v).shape.rank() == 4 && call.at(v).shape.elements() != 0;
  }

  bool has_usual_shapes(const Direct& call) const {
    const Array& values = call.at(v);
    if (!has_tokens(call) || call.chunk < 1) return false;
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

  // Memory that kernels work in, as long as this lives.
  struct Scratch {
    const DirectCalls& calls;
    const Direct& call;
    mutable std::vector<nb::object> made = {};

    float* operator()(int64_t floats) const {
      const NewArray found = calls.empty(call, {floats});
      made.push_back(found.object);
      return gpu_floats(found);
    }
  };

  GpuCall gpu_call(const Direct& call, const Array& kept, const Scratch& scratch) const {
    GpuCall made{};
    made.place = {call.device(), library_->stream(call.device()), std::cref(scratch)};
    made.is_bf16 = call.at(v).number == Number::bfloat16;
    made.batch = call.batch(), made.time = call.time(), made.heads = call.heads();
    made.position = call.start(), made.chunk = call.chunk;
    for (size_t i = 0; i < count; ++i) made.inputs[i] = gpu_memory(call.inputs[i]);
    made.kept = gpu_floats(kept);
    made.kept_floats = made.kept ? kept.shape.elements() : 0;
    return made;
  }

  NewArray empty(const Direct& call, const Shape& shape) const {
    return library_->empty(shape, Number::float32, call.device());
  }
  NewArray empty_like(const Array& array) const {
    return library_->empty(array.shape, array.number, array.device);
  }
  // Null: not given, or nothing in it.
  static void* gpu_memory(const Array& array) {
    return array.shape.elements() ? array.data : nullptr;
  }
  static float* gpu_floats(const Array& array) { return static_cast<float*>(gpu_memory(array)); }
  static View<float> view_of_floats(const Array& array) {
    return {static_cast<float*>(array.data), array.shape};
  }

  const std::unique_ptr<ArrayLibrary> library_;
  const bool on_gpu_;
};

}  // namespace

void bind_direct_calls(nb::module_& m) {
  nb::class_<DirectCalls>(m, "DirectCalls")
      .def("is_usual", &DirectCalls::is_usual, nb::arg("arrays"), nb::arg("position").none(),
           nb::arg("chunk").none())
      .def("run", &DirectCalls::run, nb::arg("arrays"), nb::arg("position").none(),
           nb::arg("chunk").none(), nb::arg("decay").none(), nb::arg("keep").none())
      .def("forward", &DirectCalls::forward, nb::arg("arguments"), nb::arg("with_gradients"))
      .def("backward", &DirectCalls::backward, nb::arg("arguments"));
  m.def(
      "direct_torch_calls",
      [](nb::handle torch, bool on_gpu) {
        return std::make_unique<DirectCalls>(torch_arrays(torch), on_gpu);
      },
      nb::arg("torch").none(), nb::arg("on_gpu"));
  m.def(
      "direct_numpy_calls",
      [](nb::object array, nb::object float32, nb::object empty) {
        return std::make_unique<DirectCalls>(
            numpy_arrays(std::move(array), std::move(float32), std::move(empty)), false);
      },
      nb::arg("array"), nb::arg("float32"), nb::arg("empty"));
}

}  // namespace deltasane::python
