// All that a training pass has on the GPU, in two allocations: what is kept from forward for
// backward, and the rest.
#pragma once

#include <algorithm>
#include <vector>

#include "model/rwkv7/train/gpu/buffers.h"
#include "model/train/gpu/layered_pass.h"

namespace deltasane::rwkv7::gpu {

// (rows, C) unless said otherwise.
template <class Real>
struct PassBuffers : LayeredBuffers<Real> {
  Rwkv7Shape shape;
  std::vector<LayerBuffers<Real>> layers;  // of every layer, or of the one that is computed
  BackwardBuffers<Real> backward{};
  float *embedded = nullptr, *dv_first = nullptr;
  Real* v_first = nullptr;
  float *zero = nullptr, *unused = nullptr;  // (C)

  PassBuffers(const Rwkv7Shape& of, const std::optional<SaneSettings>& sane,
              const PassSettings& settings)
      : LayeredBuffers<Real>(of.layers, of.channels, of.vocabulary,
                             gpu_batch_size(sane, settings)),
        shape(of),
        layers(settings.activations == Activations::recompute ? 1 : size_t(of.layers)) {}

  void place_activations(MemoryPlan& plan) {
    LayeredBuffers<Real>::place_activations(plan);
    // With one set of activations for all layers, the first layer has a gate that it never uses.
    const bool shared = layers.size() == 1 && shape.layers > 1;
    for (LayerBuffers<Real>& layer : layers)
      layer.place(plan, shape, this->size,
                  &layer == layers.data() && !shared ? LayerBuffers<Real>::Layer::first
                                                     : LayerBuffers<Real>::Layer::later);
  }
  void place_rest(MemoryPlan& plan) {
    LayeredBuffers<Real>::place_rest(plan);
    const int64_t elements = this->size.rows() * shape.channels;
    backward.place(plan, shape, this->size);
    plan.place(embedded, elements), plan.place(dv_first, elements), plan.place(v_first, elements);
    plan.place(zero, shape.channels), plan.place(unused, shape.channels);
  }
};

}  // namespace deltasane::rwkv7::gpu
