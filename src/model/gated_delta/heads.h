// What passes with and without gradients do alike with the rows of heads.
#pragma once

#include "tensor/view.h"

namespace deltasane::gated_delta {

constexpr float l2_eps = 1e-6f;  // of q and k in every model of the family

// (rows, heads * size) as (rows, head, size)
template <class T>
View<T> by_head(const View<T>& rows, int64_t size) {
  return {rows.data, {rows.shape[0], rows.shape[1] / size, size}, {rows.stride[0], size, 1}};
}

}  // namespace deltasane::gated_delta
