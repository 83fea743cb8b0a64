// A training pass of RWKV-7 on a GPU (model/train/gpu/training_pass.h), and the products that it alone
// has.
#pragma once

#include "kernel/activation/cuda.h"
#include "kernel/embedding/cuda.h"
#include "kernel/norm/cuda.h"
#include "kernel/rows/cuda.h"
#include "kernel/sane/cuda.h"
#include "kernel/time_mix/cuda.h"
#include "kernel/token_shift/cuda.h"
#include "model/gpu/side_stream.h"
#include "model/rwkv7/train/gpu/buffers.h"
#include "model/rwkv7/train/slots.h"
#include "model/train/gpu/training_pass.h"

namespace deltasane::rwkv7::gpu {

template <class Real>
struct GpuPass : GpuTrainingPass<Real> {
  const Rwkv7Shape& shape;
  const ModelSlots& slots;
  kernel::cuda::DeltaRuleScratch& recurrence_scratch;
  SideStream* side;  // null without SANE

  // The same pass, whose work goes to the side stream.
  GpuPass on_side() const {
    return {{this->sane, this->size, this->channels, this->parameters, this->rounded,
             this->gradient, side->products(), side->clock(), side->gpu(), this->present,
             this->whole},
            shape,
            slots,
            recurrence_scratch,
            nullptr};
  }
};

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

}  // namespace deltasane::rwkv7::gpu
