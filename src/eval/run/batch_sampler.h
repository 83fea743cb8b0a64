// Many texts at once: every sequence of the batch takes one token a step, and one that ends makes
// room for the next.
//
// A text depends on its prompt, the prefix, the settings and its random stream, and on nothing
// else, bit for bit: not on the size of the batch, its other sequences, the order of requests or
// the number of threads. Products with few rows add in another order than products with many
// (kernel/matmul/matmul.h), so a batch is always computed as one of many: where fewer sequences are
// left, rows that nobody reads fill it up. A prompt is read by itself and once; its state is copied
// for each of its texts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "infer/sampler_settings.h"
#include "model/rwkv7/model.h"
#include "text/tokenizer.h"

namespace deltasane::eval {

// One text that is wanted. Requests with the same prompt should stand side by side.
struct Request {
  size_t prompt = 0;
  uint64_t stream = 0;  // of random numbers
};

enum class Ended { end_of_document, stop_text, token_limit, overflow };
std::string_view name_of(Ended ended);

struct Sample {
  std::string text;
  int64_t tokens = 0;
  Ended ended = Ended::token_limit;
};

struct BatchSettings {
  SamplerSettings sampler;
  std::vector<std::string> stops;
  int64_t batch = 32;     // sequences at a time
  int64_t tokens = 1024;  // of a text, at most
};

struct SampledModel {
  const Rwkv7& model;
  const Tokenizer& tokenizer;
  const RecurrentState& prefix;  // what every prompt goes on from
  kernel::Cpu cpu;
};

// `prompt(i)` gives prompt i's tokens, at least one; `done(i, sample)` is called as request i ends.
// A sequence whose numbers overflow ends there, and the others go on.
void sample_all(const SampledModel& sampled, const BatchSettings& settings,
                std::span<const Request> requests,
                const std::function<std::vector<int32_t>(size_t)>& prompt,
                const std::function<void(size_t, const Sample&)>& done);

}  // namespace deltasane::eval
