// One forward pass of RWKV-7 on the CPU: whose tokens it has, the memory for their activations, and
// how the threads share the work. For the sources of Rwkv7 only.
#pragma once

#include <optional>
#include <vector>

#include "kernel/matmul/pieces.h"
#include "kernel/norm/norm.h"
#include "model/rwkv7/model.h"

namespace deltasane {

// `time` tokens of each of several sequences; sequence i has the rows [i * time, (i + 1) * time).
class Rwkv7::Rows {
 public:
  int64_t time;
  TauRecord* taus;  // only with one sequence

  Rows(std::span<SequenceState* const> states, int64_t tokens, TauRecord* record = nullptr)
      : time(tokens), taus(record) {
    for (SequenceState* state : states) {
      const StateLayout& layout = state->layout();
      float* const numbers = state->mutable_fixed().data();
      const int64_t layers = layout.layers(), first = layout.heads()[0].offset;
      const Shape heads = layout.parts().back().shape;
      sequences_.push_back({state,
                            {numbers, {layers, 2, first / (2 * layers)}},
                            {numbers + first, {layers, heads[0], heads[1], heads[2]}}});
    }
  }

  size_t sequences() const { return sequences_.size(); }
  int64_t count() const { return int64_t(sequences()) * time; }
  SequenceState& state(size_t sequence) const { return *sequences_[sequence].state; }
  // The last token's input of time mix (0) and channel mix (1).
  float* shift(size_t sequence, int64_t layer, int which) const {
    return sequences_[sequence].shift.at(layer, which);
  }
  float* memory(size_t sequence, int64_t layer, int64_t head) const {
    return sequences_[sequence].memory.at(layer, head);
  }
  View<float> of(size_t sequence, const View<float>& all) const {
    return all.slice(0, int64_t(sequence) * time, time);
  }

 private:
  struct Sequence {
    SequenceState* state;
    View<float> shift, memory;
  };
  std::vector<Sequence> sequences_;
};

// (rows, channels) each, unless said otherwise. x is the residual stream. Views on one line share
// their memory: the first is done with when the others are written.
struct Rwkv7::Scratch {
  View<float> x, u, r, k, v, v_first;
  View<float> mix_r, gate;
  View<float> mix_k, b;
  View<float> mix_w, w, hidden;  // hidden: (rows, feed_forward), over these four
  View<float> mix_a, a;
  View<float> mix_g, g;
  View<float> mix_v, y;
  View<float> low_w, low_a, low_v, low_g;  // (rows, rank)

  Scratch(const Rwkv7Shape& s, int64_t rows)
      : memory_(Tensor<float>::bytes_of({rows, 8 * s.channels +
                                                   std::max(4 * s.channels, s.feed_forward) +
                                                   s.rank_w + s.rank_a + s.rank_v + s.rank_g})) {
    auto* next = reinterpret_cast<float*>(memory_.data());
    const auto take = [&](int64_t columns) {
      const View<float> taken{next, {rows, columns}};
      next += rows * columns;
      return taken;
    };
    for (View<float>* t : {&x, &u, &r, &k, &v, &v_first, &mix_r, &mix_k}) *t = take(s.channels);
    low_w = take(s.rank_w), low_a = take(s.rank_a), low_v = take(s.rank_v), low_g = take(s.rank_g);
    hidden = {next, {rows, s.feed_forward}};
    for (View<float>* t : {&mix_w, &mix_a, &mix_g, &mix_v}) *t = take(s.channels);
    gate = mix_r, b = mix_k, w = mix_w, a = mix_a, g = mix_g, y = mix_v;
  }

 private:
  Buffer memory_;  // not initialised: each part is written before it is read
};

// How the work of a pass is done. Many rows: one thread runs the layers, and each operation is
// parallel over its rows. Few rows: the layers are one parallel region of a team of threads. Each
// thread computes what is small for itself, into `own`; products and heads are shared out, and
// their results are in `s`, for all.
class Rwkv7::Pass {
 public:
  const Rows& rows;
  Scratch& s;
  Scratch& own;     // s, unless there is a team
  kernel::Cpu cpu;  // for what is not shared out

  // apart: the channels of heads that lie apart (heads_apart).
  Pass(const Rows& all_rows, Scratch& memory, const kernel::Cpu& all, int64_t apart)
      : rows(all_rows), s(memory), own(memory), cpu(all), columns_(apart) {}
  Pass(const Rows& all_rows, Scratch& shared, Scratch& own_memory, const kernel::Cpu& alone,
       Team& team)
      : rows(all_rows),
        s(shared),
        own(own_memory),
        cpu(alone),
        team_(&team),
        pieces_(std::in_place, alone.isa, team.size()),
        leads_(team.next() == 0) {
    team.barrier();
  }

  // True for one thread of all.
  bool leads() const { return leads_; }

  // Whether products apply their activations. The threads of a team do so themselves, each for all.
  bool products_activate() const { return !team_; }

  // Whether products compute the rows of their inputs, in cache, where whole mixes of many threads would
  // pass through memory. Two threads are 3 % faster with whole mixes (q8, Neoverse V1), one with tiles is 5 % slower.
  bool products_mix() const {
    constexpr int many_threads = 4;
    const bool pays = cpu.threads.size() >= many_threads || kernel::has_tiles(cpu.isa);
    return !team_ && pays && rows.count() > kernel::matmul_few_tokens && !cpu.inputs;
  }

  // Whether rows of x, and of all inputs and outputs of heads, are (head, row, channel of the head): tiles write
  // each head to memory in a row, and all that is read of a head stays in L2.
  bool heads_apart() const { return columns_ != 0; }
  int64_t columns_together() const { return columns_; }
  // One block of `width` columns.
  static View<float> columns_of(const View<float>& all, int64_t block, int64_t width) {
    return {all.data + block * all.shape[0] * width, {all.shape[0], width}};
  }
  // The layer norm of rows of x, as (row, channel).
  void norm(const View<float>& x, const Tensor<float>& weight, const Tensor<float>& bias, float eps,
            const View<float>& u) const {
    if (!heads_apart()) return kernel::layer_norm(x, weight.data(), bias.data(), eps, u, cpu);
    constexpr int64_t together = 16;
    ThreadPool alone(1);
    cpu.threads.parallel((rows.count() + together - 1) / together, [&](int64_t piece) {
      const int64_t first = piece * together, count = std::min(together, rows.count() - first);
      const View<float> some = u.slice(0, first, count);
      for (int64_t row = 0; row < count; ++row) gather(x, first + row, some.at(row));
      kernel::layer_norm(some, weight.data(), bias.data(), eps, some, {alone, cpu.isa});
    });
  }
  void apart_rows(const View<float>& whole, const View<float>& apart) const {
    for (int64_t row = 0; heads_apart() && row < rows.count(); ++row)
      for (int64_t c = 0; c < whole.shape[1]; c += columns_)
        std::copy_n(whole.at(row) + c, columns_, columns_of(apart, c / columns_, columns_).at(row));
  }
  kernel::RowsOfX rows_of(const View<float>& apart) const {
    if (!heads_apart()) return {};
    return [this, apart](int64_t row, float* to) { gather(apart, row, to); };
  }

  // Several products, none of which needs another's y. All threads have the results.
  void products(std::span<const kernel::Matmul> all) {
    if (!team_) return kernel::matmul_all(all, cpu);
    pieces_->begin(all);
    for (int64_t piece; (piece = team_->next()) < pieces_->count();) pieces_->run(piece);
    team_->barrier();
  }

  // Calls body(sequence, first head, heads, cpu) for all heads of all sequences.
  template <class Body>
  void heads(int64_t count, const Body& body) {
    const auto sequences = int64_t(rows.sequences());
    if (heads_apart()) {
      ThreadPool alone(1);
      cpu.threads.parallel(sequences * count, [&](int64_t task) {
        body(size_t(task / count), task % count, 1, kernel::Cpu{alone, cpu.isa});
      });
      return;
    }
    if (!team_ && sequences == 1) return body(0, 0, count, cpu);
    if (!team_) {
      ThreadPool alone(1);
      cpu.threads.parallel(sequences, [&](int64_t sequence) {
        body(size_t(sequence), 0, count, kernel::Cpu{alone, cpu.isa});
      });
      return;
    }
    const int64_t wanted = (2 * team_->size() + sequences - 1) / sequences;
    const int64_t groups = std::min(count, wanted);
    for (int64_t task; (task = team_->next()) < sequences * groups;) {
      const int64_t group = task % groups;
      const int64_t first = group * count / groups, end = (group + 1) * count / groups;
      body(size_t(task / groups), first, end - first, cpu);
    }
    team_->barrier();
  }

 private:
  void gather(const View<float>& apart, int64_t row, float* to) const {
    for (int64_t c = 0; c < apart.shape[1]; c += columns_)
      std::copy_n(columns_of(apart, c / columns_, columns_).at(row), columns_, to + c);
  }

  int64_t columns_ = 0;
  Team* team_ = nullptr;
  std::optional<kernel::MatmulPieces> pieces_;
  bool leads_ = true;
};

}  // namespace deltasane
