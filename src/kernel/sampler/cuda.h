// Samples a token from each row of logits on a GPU: the steps of sampler_settings.h in that order,
// for a random number that is given. See README.md.
#pragma once

#include <cstdint>
#include <span>

#include "kernel/sampler/sampling_params.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

using kernel::SampledToken;
using kernel::SamplingParams;
using kernel::TokenPenalty;

// logits (rows, vocabulary): penalties are subtracted in place.
struct SampleRows {
  int64_t rows, vocabulary;
  float* logits;
  const SamplingParams* params;   // (rows)
  const TokenPenalty* penalties;  // of all rows
  SampledToken* sampled;          // (rows)
};
void sample_rows(const SampleRows& op, const Gpu& gpu);

// The same for one row, by a cluster of blocks. `penalties` and `sampled` may be pinned memory of
// the host: a token then takes one launch and no copy.
struct SampleRow {
  int64_t vocabulary;
  float* logits;
  SamplingParams params;
  const TokenPenalty* penalties;
  SampledToken* sampled;
};
void sample_row(const SampleRow& op, const Gpu& gpu);

// The same steps for one row on the host, by one thread and slowly: for tests.
SampledToken sample_row_on_host(std::span<float> logits, const SamplingParams& params,
                                std::span<const TokenPenalty> penalties);

}  // namespace deltasane::kernel::cuda
