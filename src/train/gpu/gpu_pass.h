// Where the numbers of a pass over a model on a GPU lie, and its matrix products.
//
// Everything here is asked for and not waited for. The residual stream and its gradient, raw decay,
// decay, tau and all gradients of parameters are float; Real, float or bf16, is the type of the
// rest.
#pragma once

#include <optional>
#include <string>
#include <type_traits>

#include "kernel/delta_rule/cuda.h"
#include "kernel/matmul/cuda.h"
#include "kernel/rwkv7/cuda.h"
#include "train/gpu/layer_buffers.h"
#include "train/gpu/side_queue.h"
#include "train/gpu/work_clock.h"
#include "train/parameters.h"

namespace deltasane::train::gpu {

// Rows of parameters and gradients are in the layout.
template <class Real>
struct GpuPass {
  const ParameterLayout& layout;
  std::optional<SaneSettings> sane;
  BatchSize size;
  const float* parameters;
  const Real* rounded;  // the same, as products read them
  float* gradient;      // added to; null on a forward pass without a way back
  kernel::cuda::Products& products;
  kernel::cuda::DeltaRuleScratch& recurrence_scratch;
  WorkClock& clock;
  const Gpu& gpu;
  SideQueue* side;  // null without SANE

  const Rwkv7Shape& shape() const { return layout.shape(); }
  kernel::cuda::RowBlock rows() const { return {size.sequences, size.time, shape().channels}; }
  int64_t elements() const { return size.rows() * shape().channels; }  // of (rows, C)
  int64_t ends() const { return size.sequences * size.chunks; }        // chunks of all sequences

  const float* w(const std::string& name) const { return parameters + layout.slot(name).offset; }
  const Real* matrix(const std::string& name) const { return rounded + layout.slot(name).offset; }
  float* dw(const std::string& name) const { return gradient + layout.slot(name).offset; }

  // Asks for work(pass) beside what is asked for until wait_for_side().
  template <class SideWork>
  void beside(SideWork&& work) const {
    side->begin();
    work(GpuPass{layout, sane, size, parameters, rounded, gradient, side->products(),
                 recurrence_scratch, side->clock(), side->gpu(), nullptr});
    side->end();
  }
  void wait_for_side() const { side->join(); }

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

// y = x W' with W (out, in), and its way back; gradients of matrices are added to.
template <class Real>
void linear(const GpuPass<Real>& c, const std::string& name, const Real* x, Real* y) {
  const Shape shape = c.layout.slot(name).shape;
  c.template multiply<Real>({.form = Form::nt,
                             .m = c.size.rows(),
                             .n = shape[0],
                             .k = shape[1],
                             .a = x,
                             .b = c.matrix(name),
                             .c = y});
}

// sum = stream + x W', both (rows, C) and float: the residual stream, on to the next place.
template <class Real>
void linear_onto(const GpuPass<Real>& c, const std::string& name, const Real* x,
                 const float* stream, float* sum) {
  const Shape shape = c.layout.slot(name).shape;
  c.template multiply<float>({.form = Form::nt,
                              .m = c.size.rows(),
                              .n = shape[0],
                              .k = shape[1],
                              .a = x,
                              .b = c.matrix(name),
                              .c = sum,
                              .plus = stream});
}

template <class Real>
void linear_backward(const GpuPass<Real>& c, const std::string& name, const Real* x, const Real* dy,
                     Real* dx) {
  const Shape shape = c.layout.slot(name).shape;
  const int64_t rows = c.size.rows(), out = shape[0], in = shape[1];
  c.template multiply<float>({.form = Form::tn,
                              .m = out,
                              .n = in,
                              .k = rows,
                              .a = dy,
                              .b = x,
                              .c = c.dw(name),
                              .add = true});
  c.template multiply<Real>(
      {.form = Form::nn, .m = rows, .n = in, .k = out, .a = dy, .b = c.matrix(name), .c = dx});
}

// How far apart three matrices of one shape lie that follow each other in the layout.
inline int64_t step_of_three(const ParameterLayout& layout, const ParameterSlot& first) {
  const ParameterSlot* const next = &first + 1;
  require(next + 2 <= layout.slots().data() + layout.slots().size() &&
              next[0].shape == first.shape && next[1].shape == first.shape,
          "three matrices of one shape follow each other");
  return next->offset - first.offset;
}

// The same at once for three matrices that follow each other in the layout, `name` the first; so do
// x, y and their gradients lie side by side.
template <class Real>
void three_linear(const GpuPass<Real>& c, const std::string& name, const Real* x, Real* y) {
  const ParameterSlot& slot = c.layout.slot(name);
  const int64_t rows = c.size.rows(), out = slot.shape[0], in = slot.shape[1];
  c.template multiply<Real>({.form = Form::nt,
                             .m = rows,
                             .n = out,
                             .k = in,
                             .a = x,
                             .b = c.matrix(name),
                             .c = y,
                             .count = 3,
                             .step_a = rows * in,
                             .step_b = step_of_three(c.layout, slot),
                             .step_c = rows * out});
}

template <class Real>
void three_linear_backward(const GpuPass<Real>& c, const std::string& name, const Real* x,
                           const Real* dy, Real* dx) {
  const ParameterSlot& slot = c.layout.slot(name);
  const int64_t rows = c.size.rows(), out = slot.shape[0], in = slot.shape[1];
  const int64_t apart = step_of_three(c.layout, slot);
  c.template multiply<float>({.form = Form::tn,
                              .m = out,
                              .n = in,
                              .k = rows,
                              .a = dy,
                              .b = x,
                              .c = c.dw(name),
                              .add = true,
                              .count = 3,
                              .step_a = rows * out,
                              .step_b = rows * in,
                              .step_c = apart});
  c.template multiply<Real>({.form = Form::nn,
                             .m = rows,
                             .n = in,
                             .k = out,
                             .a = dy,
                             .b = c.matrix(name),
                             .c = dx,
                             .count = 3,
                             .step_a = rows * out,
                             .step_b = apart,
                             .step_c = rows * in});
}

// y = x F with F (in, out), over `rows` rows, and its way back.
template <class Real, class Out>
void factor(const GpuPass<Real>& c, const std::string& name, int64_t rows, const Real* x, Out* y) {
  const Shape shape = c.layout.slot(name).shape;
  c.template multiply<Out>({.form = Form::nn,
                            .m = rows,
                            .n = shape[1],
                            .k = shape[0],
                            .a = x,
                            .b = c.matrix(name),
                            .c = y});
}

template <class Real>
void factor_backward(const GpuPass<Real>& c, const std::string& name, int64_t rows, const Real* x,
                     const Real* dy, Real* dx, Store store = Store::overwrite) {
  const Shape shape = c.layout.slot(name).shape;
  const int64_t in = shape[0], out = shape[1];
  c.template multiply<float>({.form = Form::tn,
                              .m = in,
                              .n = out,
                              .k = rows,
                              .a = x,
                              .b = dy,
                              .c = c.dw(name),
                              .add = true});
  c.template multiply<Real>({.form = Form::nt,
                             .m = rows,
                             .n = in,
                             .k = out,
                             .a = dy,
                             .b = c.matrix(name),
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

}  // namespace deltasane::train::gpu
