// A model of the delta-rule family for inference on a GPU: weights, activations and states there.
//
// Matrices are bf16, or float where that is asked for; products of bf16 have float sums. The residual
// stream, decays, beta, tau, the recurrence's states and logits are float; caches are as the
// matrices.
//
// Sequences of several tokens are read in blocks of rows, those of one after those of another.
// Single tokens of all other sequences are one block, captured as a CUDA graph where their number
// comes again. One call at a time has the GPU; others wait.
#pragma once

#include <memory>

#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/registry.h"

namespace deltasane::gated_delta {

// Fails, by name, for what the GPU's kernels do not have: experts, latent attention.
std::unique_ptr<LanguageModel> open_on_gpu(Checkpoint checkpoint, const OpenOptions& options);

}  // namespace deltasane::gated_delta
