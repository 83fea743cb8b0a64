// A model to train from scratch: RWKV-7's official initialisation, drawn from a seed.
//
// The shifts make a model that hardly forgets, as a long pretraining would: -12 and -1.5 show the
// failure that SANE is for, in a model of a few million parameters.
#pragma once

#include <cstdint>
#include <optional>

#include "kernel/cpu_device.h"
#include "train/parameters.h"

namespace deltasane::train {

// Normal, for measurements: numbers as large as those of orthogonal matrices, which take a minute
// to make for a 0.4B; and small ones where matrices begin with 0, as after some steps: products of
// zeros take less power, and so less time, than any others.
enum class InitialMatrices { orthogonal, normal };

struct Initialisation {
  uint64_t seed = 1;
  double decay_bias_shift = 0;  // added to w0
  double rate_bias_shift = 0;   // added to a0
  InitialMatrices matrices = InitialMatrices::orthogonal;
};

Parameters initialised(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
                       const Initialisation& settings, const kernel::Cpu& cpu);

// The shape with the official ranks for this many channels (those of the training code today).
Rwkv7Shape shape_for(int64_t layers, int64_t channels, int64_t head_size, int64_t vocabulary);

}  // namespace deltasane::train
