// Where the numbers of a training pass on a GPU lie, and its matrix products.
//
//     linear   y = x W'      W (out, in)        factor   y = x F      F (in, out)
//
// Everything here is enqueued and not waited for. The residual stream and its gradient, decays, tau
// and all gradients of parameters are float; Real, float or bf16, is the type of the rest.
#pragma once

#include <optional>
#include <type_traits>

#include "kernel/matmul/cuda.h"
#include "kernel/rows/row_block.h"
#include "kernel/store.h"
#include "model/gpu/work_clock.h"
#include "model/sane.h"
#include "model/train/parameters.h"

namespace deltasane {

// The sizes that buffers depend on.
struct GpuBatchSize {
  int64_t sequences, time, chunks;  // chunks of one sequence that SANE ends; 0 without it
  int64_t rows() const { return sequences * time; }
  int64_t ends() const { return sequences * chunks; }  // chunks of all sequences
};

// Rows of parameters and gradients are in the layout.
template <class Real>
struct GpuTrainingPass {
  std::optional<SaneSettings> sane;
  GpuBatchSize size;
  int64_t channels;
  const float* parameters;
  const Real* rounded;  // the same, as products read them
  float* gradient;      // added to; null on a forward pass without a backward one
  kernel::cuda::Products& products;
  WorkClock& clock;
  const Gpu& gpu;
  // Where a row begins with padding: (rows), and (sequences, chunks) with 0 for chunks that hold
  // some; null: nowhere.
  const uint8_t *present = nullptr, *whole = nullptr;

  kernel::cuda::RowBlock rows() const { return {size.sequences, size.time, channels}; }
  int64_t elements() const { return size.rows() * channels; }  // of (rows, C)
  int64_t ends() const { return size.ends(); }

  const float* w(Slot slot) const { return parameters + slot->offset; }
  const Real* matrix(Slot slot) const { return rounded + slot->offset; }
  float* dw(Slot slot) const { return gradient + slot->offset; }

  // The next work is one of row operations.
  void row_operation() const { clock.begin(Work::rows, gpu); }

  template <class Out>
  void multiply(const typename kernel::cuda::Products::Product<Real, Out>& product) const {
    clock.begin(Work::products, gpu);
    products.multiply(product);
  }
};

using Form = kernel::cuda::Products::Form;

// y = x W' with W (out, in), and its gradient; those of matrices are added to.
template <class Real, class Out>
void linear(const GpuTrainingPass<Real>& c, Slot w, const Real* x, Out* y) {
  const Shape& shape = w->shape;
  c.template multiply<Out>({.form = Form::nt,
                            .m = c.size.rows(),
                            .n = shape[0],
                            .k = shape[1],
                            .a = x,
                            .b = c.matrix(w),
                            .c = y});
}

// sum = stream + x W', both (rows, C) and float: the residual stream, on to its next buffer.
template <class Real>
void linear_onto(const GpuTrainingPass<Real>& c, Slot w, const Real* x, const float* stream,
                 float* sum) {
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
void linear_weight_backward(const GpuTrainingPass<Real>& c, Slot w, const Real* x, const Real* dy) {
  const int64_t rows = c.size.rows(), out = w->shape[0], in = w->shape[1];
  c.template multiply<float>(
      {.form = Form::tn, .m = out, .n = in, .k = rows, .a = dy, .b = x, .c = c.dw(w), .add = true});
}

template <class Real, class Out>
void linear_input_backward(const GpuTrainingPass<Real>& c, Slot w, const Real* dy, Out* dx,
                           kernel::Store store = kernel::Store::overwrite) {
  const int64_t rows = c.size.rows(), out = w->shape[0], in = w->shape[1];
  c.template multiply<Out>({.form = Form::nn,
                            .m = rows,
                            .n = in,
                            .k = out,
                            .a = dy,
                            .b = c.matrix(w),
                            .c = dx,
                            .add = store == kernel::Store::add});
}

template <class Real, class Out>
void linear_backward(const GpuTrainingPass<Real>& c, Slot w, const Real* x, const Real* dy, Out* dx,
                     kernel::Store store = kernel::Store::overwrite) {
  linear_weight_backward(c, w, x, dy);
  linear_input_backward(c, w, dy, dx, store);
}

// y = x F with F (in, out), over `rows` rows, and its gradient.
template <class Real, class Out>
void factor(const GpuTrainingPass<Real>& c, Slot w, int64_t rows, const Real* x, Out* y) {
  const Shape& shape = w->shape;
  c.template multiply<Out>({.form = Form::nn,
                            .m = rows,
                            .n = shape[1],
                            .k = shape[0],
                            .a = x,
                            .b = c.matrix(w),
                            .c = y});
}

template <class Real, class Out>
void factor_backward(const GpuTrainingPass<Real>& c, Slot w, int64_t rows, const Real* x,
                     const Real* dy, Out* dx, kernel::Store store = kernel::Store::overwrite) {
  const Shape& shape = w->shape;
  const int64_t in = shape[0], out = shape[1];
  c.template multiply<float>(
      {.form = Form::tn, .m = in, .n = out, .k = rows, .a = x, .b = dy, .c = c.dw(w), .add = true});
  c.template multiply<Out>({.form = Form::nt,
                            .m = rows,
                            .n = in,
                            .k = out,
                            .a = dy,
                            .b = c.matrix(w),
                            .c = dx,
                            .add = store == kernel::Store::add});
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

}  // namespace deltasane
