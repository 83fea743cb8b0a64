// Arrays of torch and of numpy, read and made without their Python code: what a direct call needs.
//
// torch's are read by the C functions of torch.Tensor.__dlpack_c_exchange_api__ (DLPack 1.3, torch
// 2.10) and made by the functions that its compiler allocates with, which leave out its dispatcher:
// 1 us less a tensor than torch.empty_like, 2 us less than new_empty. numpy's are read by the buffer
// protocol.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "tensor/view.h"

struct CUstream_st;

namespace deltasane::python {

namespace nb = nanobind;

enum class Number { float32, bfloat16 };

// A packed array.
struct Array {
  static constexpr int cpu = -1;
  void* data = nullptr;
  Shape shape;
  Number number = Number::float32;
  int device = cpu;  // or the number of a GPU
};

struct NewArray : Array {
  nb::object object;
};

class ArrayLibrary {
 public:
  virtual ~ArrayLibrary() = default;
  // Nothing where the array is unusual: of another class or number, not packed, misaligned for it.
  virtual bool read(nb::handle array, Array& found) const = 0;
  virtual bool requires_gradient(nb::handle array) const = 0;
  virtual bool records_gradients() const = 0;  // at all, now
  // Whether a mode, a transform, a trace or derivatives in forward mode would miss a direct call.
  virtual bool is_observed() const = 0;
  virtual NewArray empty(const Shape& shape, Number number, int device) const = 0;
  virtual CUstream_st* stream(int device) const = 0;  // the current one of the caller
};

// torch: the module. Null where it has no C functions that are known here, or is None.
std::unique_ptr<ArrayLibrary> torch_arrays(nb::handle torch);
std::unique_ptr<ArrayLibrary> numpy_arrays(nb::object array, nb::object float32, nb::object empty);

}  // namespace deltasane::python
