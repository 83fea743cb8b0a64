// The check of a matrix argument.
#pragma once

#include "tensor/view.h"

namespace deltasane::kernel {

template <class T>
void expect_matrix(std::string_view name, const View<T>& view) {
  if (view.shape.rank() != 2)
    fail(Fault::argument, name, ": expected (tokens, channels), found ", view.shape);
  if (view.shape[1] > 1 && view.stride[1] != 1)
    fail(Fault::argument, name, ": expected contiguous channels, found a stride of ",
         view.stride[1]);
}

}  // namespace deltasane::kernel
