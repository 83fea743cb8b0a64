// Arrays of torch and of numpy, read and made without their Python code: what a direct call needs.
//
// torch's are read by the C functions of torch.Tensor.__dlpack_c_exchange_api__ (DLPack 1.3, torch
// 2.10), numpy's by the buffer protocol.
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

class ArrayLibrary {
 public:
  virtual ~ArrayLibrary() = default;
  // Nothing where the array is unusual: of another class or number, not packed, misaligned for it.
  virtual bool read(nb::handle array, Array& found) const = 0;
  virtual bool requires_gradient(nb::handle array) const = 0;
  virtual nb::object empty_like(nb::handle array) const = 0;
  virtual nb::object empty(nb::handle like,
                           const Shape& shape) const = 0;  // number and device as like
  virtual CUstream_st* stream(int device) const = 0;       // the current one of the caller
};

// exchange: torch.Tensor.__dlpack_c_exchange_api__. Null where it is none that is known here.
std::unique_ptr<ArrayLibrary> torch_arrays(nb::handle exchange, nb::object tensor,
                                           nb::object parameter, nb::object empty_like);
std::unique_ptr<ArrayLibrary> numpy_arrays(nb::object array, nb::object float32, nb::object empty);

}  // namespace deltasane::python
