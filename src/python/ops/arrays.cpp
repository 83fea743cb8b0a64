#include "python/ops/arrays.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "python/ops/views.h"

namespace deltasane::python {
namespace {

// DLPack's table of C functions for one class of arrays, version 1; of those that are not called
// only the place is known.
struct ExchangeTable {
  struct {
    uint32_t major, minor;
  } version;
  const ExchangeTable* previous;
  void (*unused[3])();
  int (*read)(void* array, nb::dlpack::dltensor* found);  // not owning; may be null
  int (*current_stream)(int32_t device_type, int32_t device, void** stream);
};

const ExchangeTable* table_of(nb::handle capsule) {
  constexpr const char* name = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule.ptr(), name)) return nullptr;
  const auto* table = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(capsule.ptr(), name));
  while (table && table->version.major > 1) table = table->previous;
  return table && table->version.major == 1 && table->read ? table : nullptr;
}

// stride: null where the library says by that that it is. A step that is never made may be any.
template <class Stride>
bool is_packed(const Shape& shape, const Stride* stride, int64_t element) {
  if (!stride || shape.elements() == 0) return true;
  for (int i = shape.rank() - 1; i >= 0; element *= shape[i--])
    if (shape[i] > 1 && stride[i] != element) return false;
  return true;
}

Shape shape_of(int rank, const auto* sizes) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(sizes[i]);
  return shape;
}

nb::object tuple_of(const Shape& shape) {
  nb::object made = nb::steal(PyTuple_New(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i)
    PyTuple_SetItem(made.ptr(), i, PyLong_FromLongLong(shape[i]));
  return made;
}

nb::object checked(PyObject* made) {
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

nb::object interned(const char* text) { return checked(PyUnicode_InternFromString(text)); }

nb::object packed_strides(const Shape& shape) {
  Shape strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; step *= std::max<int64_t>(shape[i--], 1))
    strides[i] = step;
  return tuple_of(strides);
}

nb::object call(nb::handle function, std::initializer_list<PyObject*> arguments,
                nb::handle names = {}) {
  const size_t named = names ? nb::len(names) : 0;
  return checked(PyObject_Vectorcall(function.ptr(), arguments.begin(), arguments.size() - named,
                                     names.ptr()));
}

// Sizes and strides of packed arrays, of the last few shapes that were asked for: they mostly come
// again, and to make them takes a quarter of what the allocation takes.
class PackedTuples {
 public:
  struct Entry {
    Shape shape;
    nb::object sizes, strides;
  };
  // By value: what is called with them may call this again, and overwrite them.
  Entry of(const Shape& shape) {
    for (const Entry& known : entries_)
      if (known.sizes && known.shape == shape) return known;
    Entry& made = entries_[next_];
    next_ = (next_ + 1) % entries_.size();
    return made = {shape, tuple_of(shape), packed_strides(shape)};
  }

 private:
  std::array<Entry, 8> entries_;
  size_t next_ = 0;
};

// A property of a class that is written in C, without a look at the names of the class. Null: there
// is none.
PyGetSetDef* property_of(nb::handle type, std::string_view name) {
  if (type.is_none() || !PyType_Check(type.ptr())) return nullptr;
  void* found = PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type.ptr()), Py_tp_getset);
  for (auto* one = static_cast<PyGetSetDef*>(found); one && one->name; ++one)
    if (one->name == name) return one;
  PyErr_Clear();
  return nullptr;
}

class Torch : public ArrayLibrary {
 public:
  Torch(const ExchangeTable& table, nb::handle torch)
      : table_(table),
        tensor_(torch.attr("Tensor")),
        parameter_(torch.attr("nn").attr("Parameter")),
        float32_(torch.attr("float32")),
        bfloat16_(torch.attr("bfloat16")),
        empty_(torch.attr("empty")) {
    const nb::object owner = nb::getattr(torch.attr("_C"), "_dynamo", nb::none());
    const nb::object makers = nb::getattr(owner, "guards", nb::none());
    make_on_cpu_ = nb::getattr(makers, "_empty_strided_cpu", nb::none());
    make_on_gpu_ = nb::getattr(makers, "_empty_strided_cuda", nb::none());
    records_gradients_ = nb::getattr(torch, "is_grad_enabled", nb::none());
    forward_mode_ =
        nb::getattr(nb::getattr(torch, "autograd", nb::none()), "forward_ad", nb::none());
    modes_ = nb::getattr(torch.attr("_C"), "_len_torch_dispatch_stack", nb::none());
    trace_ = nb::getattr(torch.attr("_C"), "_get_tracing_state", nb::none());
    transform_ = nb::getattr(nb::getattr(torch.attr("_C"), "_functorch", nb::none()),
                             "peek_interpreter_stack", nb::none());
    const nb::object base = nb::getattr(torch.attr("_C"), "TensorBase", nb::none());
    const nb::object property = nb::getattr(base, requires_grad_, nb::none());
    if (nb::getattr(tensor_, requires_grad_, nb::none()).is(property) &&
        nb::getattr(parameter_, requires_grad_, nb::none()).is(property))
      requires_gradient_ = property_of(base, "requires_grad");
  }

  bool read(nb::handle array, Array& found) const override {
    const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(array.ptr())));
    if (!type.is(tensor_) && !type.is(parameter_)) return false;
    nb::dlpack::dltensor seen;
    if (table_.read(array.ptr(), &seen)) {  // sparse, nested, quantized, ...
      PyErr_Clear();
      return false;
    }
    constexpr int32_t dlpack_cpu = 1, dlpack_cuda = 2;
    constexpr nb::dlpack::dtype single{uint8_t(nb::dlpack::dtype_code::Float), 32, 1};
    constexpr nb::dlpack::dtype brain{uint8_t(nb::dlpack::dtype_code::Bfloat), 16, 1};
    const bool on_gpu = seen.device.device_type == dlpack_cuda;
    if (seen.ndim > max_rank || (!on_gpu && seen.device.device_type != dlpack_cpu)) return false;
    if (seen.dtype != single && seen.dtype != brain) return false;
    found.number = seen.dtype == single ? Number::float32 : Number::bfloat16;
    found.device = on_gpu ? seen.device.device_id : Array::cpu;
    found.data = address_of<char>(seen.data) + seen.byte_offset;
    found.shape = shape_of(seen.ndim, seen.shape);
    const uintptr_t alignment =
        on_gpu ? 16 : sizeof(float);  // a GPU's kernels read 16 bytes at once
    return (!seen.data || reinterpret_cast<uintptr_t>(found.data) % alignment == 0) &&
           is_packed(found.shape, seen.strides, 1);
  }
  bool records_gradients() const override {
    return records_gradients_.is_none() || call(records_gradients_, {}).is(nb::handle(Py_True));
  }
  // As _is_observed in python/deltasane/ops/_torch.py. Where torch has not all of these functions,
  // nothing is known.
  bool is_observed() const override {
    for (const nb::object* function : {&modes_, &trace_, &transform_, &forward_mode_})
      if (function->is_none()) return true;
    if (!call(trace_, {}).is_none() || !call(transform_, {}).is_none()) return true;
    return number(call(modes_, {})) != 0 ||
           number(checked(PyObject_GetAttr(forward_mode_.ptr(), level_.ptr()))) >= 0;
  }
  bool requires_gradient(nb::handle array) const override {
    if (requires_gradient_)
      return checked(requires_gradient_->get(array.ptr(), requires_gradient_->closure))
          .is(nb::handle(Py_True));
    return checked(PyObject_GetAttr(array.ptr(), requires_grad_.ptr())).is(nb::handle(Py_True));
  }
  NewArray empty(const Shape& shape, Number number, int device) const override {
    const nb::object& make = device == Array::cpu ? make_on_cpu_ : make_on_gpu_;
    const nb::object& type = number == Number::float32 ? float32_ : bfloat16_;
    const auto [_, sizes, strides] = tuples_.of(shape);
    NewArray made;
    if (!make.is_none()) {
      made.object = call(make, {sizes.ptr(), strides.ptr(), type.ptr()});
      require(read(made.object, made), "a new tensor is packed");
    }
    if (made.object && made.device == device) return made;  // it was made on the current device
    const nb::object place = device == Array::cpu ? cpu_ : nb::object(nb::int_(device));
    made.object = call(empty_, {sizes.ptr(), type.ptr(), place.ptr()}, names_);
    require(read(made.object, made) && made.device == device, "a new tensor is packed");
    return made;
  }
  CUstream_st* stream(int device) const override {
    void* found = nullptr;
    constexpr int32_t cuda = 2;
    if (table_.current_stream(cuda, device, &found)) throw nb::python_error();
    return static_cast<CUstream_st*>(found);
  }

 private:
  static long number(const nb::object& integer) {
    const long found = PyLong_AsLong(integer.ptr());
    if (found == -1 && PyErr_Occurred()) throw nb::python_error();
    return found;
  }

  const ExchangeTable& table_;
  nb::object tensor_, parameter_, float32_, bfloat16_, empty_, make_on_cpu_, make_on_gpu_;
  nb::object records_gradients_, forward_mode_, modes_, trace_, transform_;
  PyGetSetDef* requires_gradient_ = nullptr;
  mutable PackedTuples tuples_;  // under Python's lock
  nb::object level_ = interned("_current_level");
  nb::object requires_grad_ = interned("requires_grad"), cpu_ = interned("cpu");
  nb::object names_ = nb::make_tuple(interned("dtype"), interned("device"));
};

class Numpy : public ArrayLibrary {
 public:
  Numpy(nb::object array, nb::object float32, nb::object empty)
      : array_(std::move(array)), float32_(std::move(float32)), empty_(std::move(empty)) {}

  bool read(nb::handle array, Array& found) const override {
    if (!array_.is(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(array.ptr()))))) return false;
    if (!checked(PyObject_GetAttr(array.ptr(), dtype_.ptr())).is(float32_)) return false;
    Py_buffer seen;
    if (PyObject_GetBuffer(array.ptr(), &seen, PyBUF_STRIDES)) throw nb::python_error();
    found.data = seen.buf;
    bool usual =
        seen.ndim <= max_rank && reinterpret_cast<uintptr_t>(seen.buf) % sizeof(float) == 0;
    if (usual) {
      found.shape = shape_of(seen.ndim, seen.shape);
      usual = is_packed(found.shape, seen.strides, sizeof(float));
    }
    PyBuffer_Release(&seen);
    return usual;
  }
  bool requires_gradient(nb::handle) const override { return false; }
  bool records_gradients() const override { return false; }
  bool is_observed() const override { return false; }
  NewArray empty(const Shape& shape, Number, int) const override {
    NewArray made;
    made.object = call(empty_, {tuple_of(shape).ptr(), float32_.ptr()});
    require(read(made.object, made), "a new array is packed");
    return made;
  }
  CUstream_st* stream(int) const override { return nullptr; }

 private:
  nb::object array_, float32_, empty_;
  nb::object dtype_ = interned("dtype");
};

}  // namespace

std::unique_ptr<ArrayLibrary> torch_arrays(nb::handle torch) {
  if (torch.is_none()) return nullptr;
  const ExchangeTable* table =
      table_of(nb::getattr(torch.attr("Tensor"), "__dlpack_c_exchange_api__", nb::none()));
  return table ? std::make_unique<Torch>(*table, torch) : nullptr;
}

std::unique_ptr<ArrayLibrary> numpy_arrays(nb::object array, nb::object float32, nb::object empty) {
  return std::make_unique<Numpy>(std::move(array), std::move(float32), std::move(empty));
}

}  // namespace deltasane::python
