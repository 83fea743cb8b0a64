// With m the largest score so far, l the sum of exp(score - m) and a the sum of exp(score - m) v, a
// tile of rows with the largest score m' multiplies l and a by exp(m - max(m, m')) and adds its own.
// At the end y = a / l.
#include "kernel/attention/cpu.h"

#include "kernel/rows/vectors.h"

namespace deltasane::kernel::cpu {
namespace {

constexpr int64_t R = attention_rows;

template <Isa isa>
struct Attend {
  static constexpr int lanes = lanes_of(isa);
  static constexpr int Q = 4;                                // queries that share loads
  static constexpr int K = registers_of(isa) == 32 ? 4 : 2;  // rows that share loads
  using V = Simd<lanes>;
  using Vec = typename V::Vec;

  explicit Attend(const AttentionTask& one) : task(one), width((one.values + 15) / 16 * 16) {}

  const AttentionTask& task;
  const int64_t width;              // of a row of sums
  alignas(64) float weight[Q][R];   // scores, then exp(score - m)
  float largest[attention_queries], sum[attention_queries];

  // Scores of some queries and `some` rows from `row` on. Each is summed in the same order, whatever
  // it is computed beside.
  template <int rows>
  [[gnu::always_inline]] inline void dots(const AttentionQuery* q, int count, const float* k,
                                          int64_t at) {
    Vec acc[Q][rows] = {};
    const float* from[Q];
    for (int i = 0; i < Q; ++i) from[i] = q[i < count ? i : 0].q;
    each_vector<lanes>(task.keys, [&](int64_t c, int some) {
      Vec key[rows];
#pragma GCC unroll 4
      for (int j = 0; j < rows; ++j) key[j] = V::load_some(k + j * task.k_step + c, some);
#pragma GCC unroll 4
      for (int i = 0; i < Q; ++i) {
        const Vec query = V::load_some(from[i] + c, some);
#pragma GCC unroll 4
        for (int j = 0; j < rows; ++j) acc[i][j] += query * key[j];
      }
    });
    for (int i = 0; i < count; ++i)
      for (int j = 0; j < rows; ++j) weight[i][at + j] = V::sum(acc[i][j]) * task.scale;
  }

  // From scores of the rows [row, row + R) to weights; returns what the sums so far are scaled by.
  float weigh(int64_t query, int64_t i, int64_t row) {
    const AttentionQuery& one = task.queries[query];
    float* const w = weight[i];
    const auto sees = [&](int64_t s) {
      return row + s < one.end && (row + s >= one.begin || row + s < task.kept);
    };
    float most = largest[query];
    bool any = false;
    for (int64_t s = 0; s < R; ++s)
      if (sees(s)) any = true, most = w[s] > most ? w[s] : most;
    if (!any) {
      for (int64_t s = 0; s < R; ++s) w[s] = 0;
      return 1;
    }
    const float before = sum[query] > 0 ? exp_of(largest[query] - most) : 0;
    Vec total = {};
    for (int64_t s = 0; s < R; s += lanes) {
      Vec e = V::exp_of_negative(V::load(w + s) - most);
      for (int lane = 0; lane < lanes; ++lane)
        if (!sees(s + lane)) e[lane] = 0;
      V::store(w + s, e);
      total += e;
    }
    sum[query] = sum[query] * before + V::sum(total);
    largest[query] = most;
    return before;
  }

  static float exp_of(float x) { return V::exp_of_negative(V::splat(x))[0]; }

  void add_values(int64_t query, int count, const float (&before)[Q], int64_t row, int64_t rows) {
    const float* const v = task.v + row * task.v_step;
    each_vector<lanes>(task.values, [&](int64_t c, int some) {
      Vec acc[Q];
#pragma GCC unroll 4
      for (int i = 0; i < Q; ++i)
        acc[i] = V::load(sums(query + (i < count ? i : 0)) + c) * before[i];
      for (int64_t s = 0; s < rows; ++s) {
        const Vec value = V::load_some(v + s * task.v_step + c, some);
#pragma GCC unroll 4
        for (int i = 0; i < Q; ++i) acc[i] += value * weight[i][s];
      }
      for (int i = 0; i < count; ++i) V::store(sums(query + i) + c, acc[i]);
    });
  }

  float* sums(int64_t query) { return task.scratch + query * width; }

  void run() {
    int64_t first = task.queries[0].begin, last = 0;
    for (int64_t i = 0; i < task.count; ++i) {
      largest[i] = -__builtin_inff(), sum[i] = 0;
      first = task.queries[i].begin < first ? task.queries[i].begin : first;
      last = task.queries[i].end > last ? task.queries[i].end : last;
    }
    for (int64_t row = 0; row < last; row += R) {
      if (row >= task.kept && row + R <= first) continue;
      const int64_t rows = last - row < R ? last - row : R;
      for (int64_t query = 0; query < task.count; query += Q) {
        const int count = int(task.count - query < Q ? task.count - query : Q);
        const float* const k = task.k + row * task.k_step;
        for (auto& of_query : weight)
          for (float& w : of_query) w = 0;
        int64_t at = 0;
        for (; at + K <= rows; at += K)
          dots<K>(task.queries + query, count, k + at * task.k_step, at);
        for (; at < rows; ++at) dots<1>(task.queries + query, count, k + at * task.k_step, at);
        float before[Q] = {};
        for (int i = 0; i < count; ++i) before[i] = weigh(query + i, i, row);
        add_values(query, count, before, row, rows);
      }
    }
    for (int64_t query = 0; query < task.count; ++query) {
      const float share = 1.0f / sum[query];
      each_vector<lanes>(task.values, [&](int64_t c, int some) {
        V::store_some(task.queries[query].y + c, V::load(sums(query) + c) * share, some);
      });
    }
  }
};

}  // namespace

template <Isa isa>
void attend(const AttentionTask& task) {
  Attend<isa>(task).run();
}

template void attend<Isa::DELTASANE_ISA>(const AttentionTask&);

}  // namespace deltasane::kernel::cpu
