// Latent attention and experts: steps of block.h that few models have. For executor.cpp only.
#pragma once

#include "kernel/experts/slots.h"
#include "kernel/rows/heads_cuda.h"
#include "model/gated_delta/gpu/executor_block.h"

namespace deltasane::gated_delta {

template <class Real>
void GpuExecutor<Real>::Block::multiply_heads(const Real* rows, const Real* matrices, Real* to,
                                              int64_t out, int64_t in) {
  using kernel::cuda::Products;
  Products::Product<Real, Real> product{Products::Form::nt, rows_, out, in, rows, matrices, to};
  product.count = c.heads, product.stride_a = rows_ * in, product.stride_b = out * in;
  product.stride_c = rows_ * out;
  e.products_.multiply(product);
}

// q of each head becomes [k_up' q | the part of q for the shared key].
template <class Real>
void GpuExecutor<Real>::Block::project_latent() {
  using kernel::cuda::CopyHeads;
  const int64_t keys = c.latent_key_size, shared = c.shared_key_size, latents = c.latent_size;
  const int64_t step = in_step(), queries = c.heads * (keys + shared), wide = latents + shared;
  e.multiply(h(), w.in, e.in, rows_, step, c.channels);
  kernel::cuda::RmsNorm<Real, Real> norm;
  norm.rows = rows_, norm.size = latents, norm.x = norm.y = e.in + queries;
  norm.x_step = norm.y_step = step, norm.weight = w.kv_norm, norm.eps = float(c.latent_norm_eps);
  kernel::cuda::rms_norm(norm, gpu_);
  copy_heads(CopyHeads<Real>{rows_, c.heads, keys, e.in, step, keys + shared, e.heads_narrow, keys,
                             rows_ * keys},
             gpu_);
  multiply_heads(e.heads_narrow, w.k_up, e.heads_wide, latents, keys);
  copy_heads(CopyHeads<Real>{rows_, c.heads, latents, e.heads_wide, latents, rows_ * latents,
                             e.latent_q, c.heads * wide, wide},
             gpu_);
  copy_heads(CopyHeads<Real>{rows_, c.heads, shared, e.in + keys, step, keys + shared,
                             e.latent_q + latents, c.heads * wide, wide},
             gpu_);
}

template <class Real>
void GpuExecutor<Real>::Block::append_latent() {
  const int64_t queries = c.heads * (c.latent_key_size + c.shared_key_size);
  kernel::cuda::append_to_cache(
      kernel::cuda::AppendRows<Real>{e.rows_, caches(), c.latent_size + c.shared_key_size,
                                     e.in + queries, in_step()},
      gpu_);
}

template <class Real>
void GpuExecutor<Real>::Block::attend_latent() {
  using kernel::cuda::CopyHeads;
  const int64_t latents = c.latent_size, values = c.latent_value_size;
  kernel::cuda::Attention<Real> op;
  op.rows = e.rows_, op.cache = caches();
  op.heads = c.heads, op.kv_heads = 1, op.size = latents + c.shared_key_size, op.latents = latents;
  op.q = e.latent_q, op.q_step = c.heads * op.size;
  op.scale = float(1 / std::sqrt(double(c.latent_key_size + c.shared_key_size)));
  op.window = c.window, op.kept = c.kept, op.y = e.latent_y;
  kernel::cuda::attention(op, e.attention_scratch_, gpu_);
  copy_heads(CopyHeads<Real>{rows_, c.heads, latents, e.latent_y, c.heads * latents, latents,
                             e.heads_wide, latents, rows_ * latents},
             gpu_);
  multiply_heads(e.heads_wide, w.v_up, e.heads_narrow, values, latents);
  copy_heads(CopyHeads<Real>{rows_, c.heads, values, e.heads_narrow, values, rows_ * values, e.y,
                             c.heads * values, values},
             gpu_);
}

template <class Real>
void GpuExecutor<Real>::Block::add_experts() {
  e.multiply(h(), w.router, e.router, rows_, c.expert_count, c.channels);
  kernel::cuda::RouteRows route;
  route.router = {c.sigmoid_router ? kernel::RouterScore::sigmoid : kernel::RouterScore::softmax,
                  c.experts_used, c.renormalize, float(c.expert_scale), w.router_bias};
  route.rows = rows_, route.experts = c.expert_count, route.logits = e.router;
  route.chosen = e.chosen;
  kernel::cuda::route_rows(route, gpu_);
  if (rows_ > kernel::cuda::most_rows_of_experts) {
    experts_of_many_rows();
  } else {
    kernel::cuda::ExpertRows<Real> op;
    op.rows = rows_, op.used = c.experts_used, op.experts = c.expert_count;
    op.channels = c.channels, op.width = c.expert_size, op.chosen = e.chosen;
    op.gate_and_up = w.experts_gate_and_up, op.down = w.experts_down;
    op.x = h(), op.hidden = e.expert_hidden, op.y = e.x;
    kernel::cuda::add_expert_rows(op, gpu_);
  }
  if (!w.shared_down) return;
  Real* const hidden = gated_hidden(w.shared_gate_and_up, c.shared_expert_size);
  if (w.shared_gate) {
    e.multiply(h(), w.shared_gate, e.shared_z, rows_, 1, c.channels);
    kernel::cuda::scale_rows(
        kernel::cuda::ScaledRows<Real>{rows_, c.shared_expert_size, e.shared_z, hidden}, gpu_);
  }
  e.multiply(hidden, w.shared_down, e.x, rows_, c.channels, c.shared_expert_size, true);
}

template <class Real>
void GpuExecutor<Real>::Block::experts_of_many_rows() {
  using kernel::cuda::Products;
  const int64_t slots = rows_ * c.experts_used, width = c.expert_size, channels = c.channels;
  std::vector<kernel::Choice> chosen(static_cast<size_t>(slots));
  copy_to_host(chosen.data(), e.chosen, std::span(chosen).size_bytes(), gpu_);
  gpu_.wait();
  const kernel::ExpertSlots of(chosen, c.experts_used, size_t(c.expert_count));
  copy_to_gpu(e.slot_rows, of.row.data(), std::span(of.row).size_bytes(), gpu_);
  copy_to_gpu(e.slot_places, of.place.data(), std::span(of.place).size_bytes(), gpu_);
  kernel::cuda::gather_rows(
      kernel::cuda::GatherRows<Real>{slots, channels, e.slot_rows, h(), e.expert_in}, gpu_);
  of.each_expert([&](size_t number, int64_t first, int64_t count) {
    const auto expert = int64_t(number);
    Products::Product<Real, Real> both{Products::Form::nt, count, width, channels,
                                       e.expert_in + first * channels,
                                       w.experts_gate_and_up + expert * width * channels,
                                       e.expert_both + first * width};
    both.count = 2, both.stride_b = c.expert_count * width * channels;
    both.stride_c = slots * width;
    e.products_.multiply(both);
  });
  Real* const up = e.expert_both + slots * width;
  kernel::cuda::multiply_by_gate(
      kernel::cuda::GatedRows<Real>{kernel::GateActivation::silu, slots, width, e.expert_both,
                                    width, up, up},
      gpu_);
  of.each_expert([&](size_t number, int64_t first, int64_t count) {
    const auto expert = int64_t(number);
    e.multiply(up + first * width, w.experts_down + expert * channels * width,
               e.expert_out + first * channels, count, channels, width);
  });
  kernel::cuda::add_slots({rows_, c.experts_used, channels, e.chosen, e.slot_places, e.expert_out,
                           e.x},
                          gpu_);
  gpu_.wait();  // the host's lists end here
}

}  // namespace deltasane::gated_delta
