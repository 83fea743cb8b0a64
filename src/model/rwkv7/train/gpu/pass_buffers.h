// All that a training pass has on the GPU, in two allocations: what is kept from forward for
// backward, and the rest. Placed by the same functions that count it beforehand.
#pragma once

#include <algorithm>
#include <vector>

#include "kernel/embedding/cuda.h"
#include "model/rwkv7/train/gpu/buffers.h"
#include "model/train/trainable_model.h"

namespace deltasane::rwkv7::gpu {

inline constexpr int64_t logit_rows = 4096;  // whose logits are held at a time: they are large

// (rows, C) unless said otherwise.
template <class Real>
struct PassBuffers {
  std::vector<float*> streams;             // the residual stream before each layer and at the end
  std::vector<LayerBuffers<Real>> layers;  // of every layer, or of the one that is computed
  BackwardBuffers<Real> backward;
  float *embedded, *dx, *dv_first;
  Real *last, *dlast, *v_first;
  Real* logits;               // (logit_rows, vocabulary)
  int32_t *tokens, *targets;  // (rows)
  float* weights;             // (rows)
  double* losses;             // (rows)
  uint8_t *present, *whole;   // (rows), (sequences, chunks)
  float *zero, *unused;       // (C)
  int32_t* order;             // for the embedding's gradient

  PassBuffers(const Rwkv7Shape& shape, Activations activations)
      : streams(size_t(shape.layers) + 1),
        layers(activations == Activations::recompute ? 1 : size_t(shape.layers)) {}

  void place_activations(MemoryPlan& plan, const Rwkv7Shape& shape, const BatchSize& size) {
    for (float*& stream : streams) plan.place(stream, size.rows() * shape.channels);
    // With one set of activations for all layers, the first layer has a gate that it never uses.
    const bool shared = layers.size() == 1 && shape.layers > 1;
    for (LayerBuffers<Real>& layer : layers)
      layer.place(plan, shape, size,
                  &layer == layers.data() && !shared ? LayerBuffers<Real>::Layer::first
                                                     : LayerBuffers<Real>::Layer::later);
  }

  void place_rest(MemoryPlan& plan, const Rwkv7Shape& shape, const BatchSize& size) {
    const int64_t rows = size.rows(), elements = rows * shape.channels;
    backward.place(plan, shape, size);
    for (float** one : {&embedded, &dx, &dv_first}) plan.place(*one, elements);
    for (Real** one : {&last, &dlast, &v_first}) plan.place(*one, elements);
    plan.place(logits, std::min(rows, logit_rows) * shape.vocabulary);
    plan.place(tokens, rows), plan.place(targets, rows);
    plan.place(weights, rows), plan.place(losses, rows);
    plan.place(present, rows), plan.place(whole, size.sequences * size.chunks);
    plan.place(zero, shape.channels), plan.place(unused, shape.channels);
    plan.place(order, kernel::cuda::embed_scratch({size.sequences, size.time, shape.channels},
                                                  shape.vocabulary));
  }
};

// The sizes that a pass's buffers depend on.
inline BatchSize batch_size(const std::optional<SaneSettings>& sane, const PassSettings& settings) {
  return {settings.sequences, settings.time, sane ? settings.time / sane->chunk : 0};
}

}  // namespace deltasane::rwkv7::gpu
