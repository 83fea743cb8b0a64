// Arrays of Python as views. An array is a tuple (address, shape, strides in elements), made of
// numpy's or torch's own answers; None is an argument that was not given. Handing over nine torch
// tensors by DLPack instead costs 34 us a call, this 2 us.
//
// Types and devices were checked in Python: an address says nothing about them.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "tensor/view.h"

namespace deltasane::python {

namespace nb = nanobind;

// None or a tuple as above. Fails where a rank is too large.
template <class T>
View<T> view_of(nb::handle array) {
  if (array.is_none()) return {};
  const auto parts = nb::borrow<nb::tuple>(array);
  const auto sizes = nb::borrow<nb::tuple>(parts[1]), steps = nb::borrow<nb::tuple>(parts[2]);
  if (sizes.size() > size_t(max_rank))
    fail(Fault::argument, "array: expected at most ", max_rank, " dimensions, found ",
         sizes.size());
  Shape shape, stride;
  for (size_t i = 0; i < sizes.size(); ++i) {
    shape.push_back(nb::cast<int64_t>(sizes[i]));
    stride.push_back(nb::cast<int64_t>(steps[i]));
  }
  // An array without elements may have no address, and is given all the same.
  static T nothing{};
  T* const data = reinterpret_cast<T*>(nb::cast<uintptr_t>(parts[0]));
  return {data ? data : &nothing, shape, stride};
}

}  // namespace deltasane::python
