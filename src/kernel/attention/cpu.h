// A few queries that share a head's keys and values, compiled per instruction set (cpu.cpp). Plain
// declarations only.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel::cpu {

inline constexpr int64_t attention_queries = 32;  // at a time, at most
inline constexpr int64_t attention_rows = 32;

struct AttentionQuery {
  const float* q;
  float* y;
  int64_t begin, end;  // the rows it sees, beside the first `kept`
};

struct AttentionTask {
  const AttentionQuery* queries;
  int64_t count;
  const float* k;
  int64_t k_step;  // from row to row
  const float* v;
  int64_t v_step;
  int64_t keys, values;
  float scale;
  int64_t kept;
  float* scratch;  // attention_scratch(values), zeros
};

// Sums of values, filled up to whole vectors.
constexpr int64_t attention_scratch(int64_t values) {
  return attention_queries * ((values + 15) / 16 * 16);
}

template <Isa isa>
void attend(const AttentionTask& task);

}  // namespace deltasane::kernel::cpu
