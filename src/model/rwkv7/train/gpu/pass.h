// Where the numbers of a training pass on a GPU lie, and its matrix products.
//
//     linear   y = x W'      W (out, in)        factor   y = x F      F (in, out)
//
// Everything here is enqueued and not waited for. The residual stream and its gradient, raw decay,
// decay, tau and all gradients of parameters are float; Real, float or bf16, is the type of the
// rest.
#pragma once

#include <optional>
#include <type_traits>

#include "kernel/delta_rule/cuda.h"
#include "kernel/matmul/cuda.h"
#include "kernel/activation/cuda.h"
#include "kernel/embedding/cuda.h"
#include "kernel/norm/cuda.h"
#include "kernel/rows/cuda.h"
#include "kernel/sane/cuda.h"
#include "kernel/time_mix/cuda.h"
#include "kernel/token_shift/cuda.h"
#include "model/gpu/side_stream.h"
#include "model/gpu/work_clock.h"
#include "model/rwkv7/train/gpu/buffers.h"
#include "model/rwkv7/train/slots.h"
#include "model/sane.h"

namespace deltasane::rwkv7::gpu {

// Rows of parameters and gradients are in the layout.
template <class Real>
struct GpuPass {
  const Rwkv7Shape& shape;
  const ModelSlots& slots;
  std::optional<SaneSettings> sane;
  BatchSize size;
  const float* parameters;
  const Real* rounded;  // the same, as products read them
  float* gradient;      // added to; null on a forward pass without a backward one
  kernel::cuda::Products& products;
  kernel::cuda::DeltaRuleScratch& recurrence_scratch;
  WorkClock& clock;
  const Gpu& gpu;
  SideStream* side;  // null without SANE
  // Where a row begins with padding: (rows), and (sequences, chunks) with 0 for chunks that hold
  // some; null: nowhere.
  const uint8_t *present = nullptr, *whole = nullptr;

  kernel::cuda::RowBlock rows() const { return {size.sequences, size.time, shape.channels}; }
  int64_t elements() const { return size.rows() * shape.channels; }  // of (rows, C)
  int64_t ends() const { return size.sequences * size.chunks; }      // chunks of all sequences

  const float* w(Slot slot) const { return parameters + slot->offset; }
  const Real* matrix(Slot slot) const { return rounded + slot->offset; }
  float* dw(Slot slot) const { return gradient + slot->offset; }

  // The same pass, whose work goes to the side stream.
  GpuPass on_side() const {
    return {shape,
            slots,
            sane,
            size,
            parameters,
            rounded,
            gradient,
            side->products(),
            recurrence_scratch,
            side->clock(),
            side->gpu(),
            nullptr,
            present,
            whole};
  }

  // The next work is one of row operations.
  void row_operation() const { clock.begin(Work::rows, gpu); }

  template <class Out>
  void multiply(const typename kernel::cuda::Products::Product<Real, Out>& product) const {
    clock.begin(Work::products, gpu);
    products.multiply(product);
  }
};

template <class Real, class Out>
using Product = kernel::cuda::Products::Product<Real, Out>;
using Form = kernel::cuda::Products::Form;
enum class Store { overwrite, add };

// y = x W' with W (out, in), and its gradient; those of matrices are added to.
template <class Real>
void linear(const GpuPass<Real>& c, Slot w, const Real* x, Real* y) {
  const Shape& shape = w->shape;
  c.template multiply<Real>({.form = Form::nt,
                             .m = c.size.rows(),
                             .n = shape[0],
                             .k = shape[1],
                             .a = x,
                             .b = c.matrix(w),
                             .c = y});
}

// sum = stream + x W', both (rows, C) and float: the residual stream, on to its next buffer.
template <class Real>
void linear_onto(const GpuPass<Real>& c, Slot w, const Real* x, const float* stream, float* sum) {
  const Shape& shape = w->shape;
  c.template multiply<float>({.form = Form::nt,
                              .m = c.size.rows(),
                              .n = shape[0],
                              .k = shape[1],
                              .a = x,
                              .b = c.matrix(w),
                              .c = sum,
                              .addend = stream});
}

template <class Real>
void linear_backward(const GpuPass<Real>& c, Slot w, const Real* x, const Real* dy, Real* dx) {
  const Shape& shape = w->shape;
  const int64_t rows = c.size.rows(), out = shape[0], in = shape[1];
  c.template multiply<float>(
      {.form = Form::tn, .m = out, .n = in, .k = rows, .a = dy, .b = x, .c = c.dw(w), .add = true});
  c.template multiply<Real>(
      {.form = Form::nn, .m = rows, .n = in, .k = out, .a = dy, .b = c.matrix(w), .c = dx});
}

// How far apart three matrices of one shape lie that follow each other in the layout.
inline int64_t step_of_three(const ParameterLayout& layout, Slot first) {
  const Slot next = first + 1;
  require(next + 2 <= layout.slots().data() + layout.slots().size() &&
              next[0].shape == first->shape && next[1].shape == first->shape,
          "three matrices of one shape follow each other");
  return next->offset - first->offset;
}

// The same at once for three matrices that follow each other in the layout, `w` the first; so do
// x, y and their gradients lie side by side.
template <class Real>
void three_linear(const GpuPass<Real>& c, Slot w, const Real* x, Real* y) {
  const int64_t rows = c.size.rows(), out = w->shape[0], in = w->shape[1];
  c.template multiply<Real>({.form = Form::nt,
                             .m = rows,
                             .n = out,
                             .k = in,
                             .a = x,
                             .b = c.matrix(w),
                             .c = y,
                             .count = 3,
                             .stride_a = rows * in,
                             .stride_b = step_of_three(c.slots.layout, w),
                             .stride_c = rows * out});
}

template <class Real>
void three_linear_backward(const GpuPass<Real>& c, Slot w, const Real* x, const Real* dy,
                           Real* dx) {
  const int64_t rows = c.size.rows(), out = w->shape[0], in = w->shape[1];
  const int64_t apart = step_of_three(c.slots.layout, w);
  c.template multiply<float>({.form = Form::tn,
                              .m = out,
                              .n = in,
                              .k = rows,
                              .a = dy,
                              .b = x,
                              .c = c.dw(w),
                              .add = true,
                              .count = 3,
                              .stride_a = rows * out,
                              .stride_b = rows * in,
                              .stride_c = apart});
  c.template multiply<Real>({.form = Form::nn,
                             .m = rows,
                             .n = in,
                             .k = out,
                             .a = dy,
                             .b = c.matrix(w),
                             .c = dx,
                             .count = 3,
                             .stride_a = rows * out,
                             .stride_b = apart,
                             .stride_c = rows * in});
}

// y = x F with F (in, out), over `rows` rows, and its gradient.
template <class Real, class Out>
void factor(const GpuPass<Real>& c, Slot w, int64_t rows, const Real* x, Out* y) {
  const Shape& shape = w->shape;
  c.template multiply<Out>({.form = Form::nn,
                            .m = rows,
                            .n = shape[1],
                            .k = shape[0],
                            .a = x,
                            .b = c.matrix(w),
                            .c = y});
}

template <class Real>
void factor_backward(const GpuPass<Real>& c, Slot w, int64_t rows, const Real* x, const Real* dy,
                     Real* dx, Store store = Store::overwrite) {
  const Shape& shape = w->shape;
  const int64_t in = shape[0], out = shape[1];
  c.template multiply<float>(
      {.form = Form::tn, .m = in, .n = out, .k = rows, .a = x, .b = dy, .c = c.dw(w), .add = true});
  c.template multiply<Real>({.form = Form::nt,
                             .m = rows,
                             .n = in,
                             .k = out,
                             .a = dy,
                             .b = c.matrix(w),
                             .c = dx,
                             .add = store == Store::add});
}

// The residual stream's gradient as products read it: itself where Real is float, and where it is
// not the rounded copy that whoever changed it last has left.
template <class Real>
const Real* as_products_read(const float* dx, const Real* rounded) {
  if constexpr (std::is_same_v<Real, float>)
    return dx;
  else
    return rounded;
}
// Where that copy goes; null: none is wanted.
template <class Real>
Real* rounded_copy(Real* place) {
  return std::is_same_v<Real, float> ? nullptr : place;
}

}  // namespace deltasane::rwkv7::gpu
