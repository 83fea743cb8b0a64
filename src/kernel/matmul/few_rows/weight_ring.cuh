// The weights of a block on their way through shared memory, in the order in which they are multiplied:
// chunks of eight rows, of which each warp has some columns. Copies need none of a product's inputs, so
// that they begin before those are there. They are bulk copies; before compute capability 9.0 a lane copies
// what it reads itself (cp.async). For .cu files.
#pragma once

#include <algorithm>

#include <nv/target>

#include "kernel/cuda/async_copy.cuh"
#include "kernel/matmul/few_rows/tile_plan.cuh"

namespace deltasane::kernel::cuda {

// streams: whether there are more chunks than places.
template <class Weight, bool streams>
class WeightRing {
 public:
  static constexpr int depth = 8;  // places of chunks in shared memory at most
  // Chunks in flight before the inputs are there: enough for the whole bandwidth. All at once are slower, as other
  // kernels load their inputs meanwhile.
  static constexpr int at_once = 3;
  static constexpr int place_bytes = tile_rows * chunk_columns<Weight> * int(sizeof(Weight));

  // Of a block.
  __host__ __device__ static size_t bytes(int places) {
    return size_t(places) * place_bytes + sizeof(Barriers);
  }
  // Of a block that has so many chunks and `room` bytes: at least two, or one for a single chunk.
  static int places(int64_t chunks, int64_t room) {
    const int64_t fitting = (room - int64_t(sizeof(Barriers))) / place_bytes;
    return int(std::min({chunks, std::max<int64_t>(2, fitting), int64_t(depth)}));
  }

  // Other threads use it after a barrier of the block.
  __device__ WeightRing(const TilePlan<Weight>& plan, int places, void* memory)
      : plan_(plan),
        memory_(static_cast<char*>(memory)),
        barriers_(*reinterpret_cast<Barriers*>(memory_ + places * place_bytes)),
        places_(places),
        tiles_(plan.tiles()),
        stride_(min(plan.columns, chunk_columns<Weight>)) {
    const int row = int(threadIdx.x) % 32 / 4;
    const int column = int(threadIdx.x) / 32 * piece_columns<Weight> +
                       int(threadIdx.x) % 4 * weights_per_load<Weight>;
    own_ = (row * stride_ + column) * int(sizeof(Weight));
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (begin_bulk_copies();), (begin_own_copies(row, column);))
  }

  // Whether two chunks can be taken at once: the place of the first is filled when the second has been taken.
  __device__ bool has_pairs() const { return places_ > 2 || !streams; }

  // use(a lane's weights of each) for the `count` oldest chunks, up to `most`, whose places take the next; zeros
  // instead of more. Of an odd row the two loads of each pair are exchanged (exchanged()). left: the
  // tile's columns from the warp's first one of the chunk on; there may be none.
  template <int most, class Use>
  __device__ void take(int count, int left, Use&& use) {
    uint4 raw[most][piece_loads];
    int place = place_;
    uint32_t parity = parity_;
#pragma unroll
    for (int i = 0; i < most; ++i) {
      if (i < count) {
        NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (mbarrier_wait(barriers_.full[place], parity);),
                          (wait_for_own(streams ? places_ - 1 - i : 0);))
      }
      if (i < count && left >= piece_columns<Weight>)
        load(place, raw[i], [](int) { return true; });
      else
        load(place, raw[i], [&](int skipped) {
          return i < count && int(threadIdx.x) % 4 * weights_per_load<Weight> + skipped < left;
        });
      go_on(place, parity);
    }
    if (left > 0) use(raw);
#pragma unroll
    for (int i = 0; i < most; ++i)
      if (i < count) {
        if constexpr (streams) {
          NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (refill();), (copy_own(place_);))
        }
        go_on(place_, parity_);
      }
  }

 private:
  struct Barriers {
    Mbarrier full[depth], empty[depth];
  };
  // The next chunk to copy: its tile and that of its batch of the block's, its first column and its window's.
  struct Next {
    int batch = 0, tile = 0, half = 0, window = 0, from = 0;
  };
  __device__ void advance() {
    Next& n = next_;
    if ((n.from += chunk_columns<Weight>) < plan_.window_end(n.window)) return;
    n.from = n.window;
    if (++n.half < plan_.halves) return;
    n.half = 0;
    if (++n.tile < min(n.batch + plan_.batch, tiles_)) return;
    n.window += plan_.window;
    if (n.window < plan_.columns) {
      n.tile = n.batch, n.from = n.window;
    } else {
      n.batch += plan_.batch, n.tile = n.batch, n.window = n.from = 0;
    }
  }
  __device__ int next_row() const {  // of a half
    return (int(blockIdx.x) + next_.tile * plan_.blocks) * tile_rows;
  }
  __device__ const Weight* next_weights() const {
    return plan_.data + (int64_t(next_.half) * plan_.rows + next_row()) * plan_.columns +
           next_.from;
  }
  __device__ int next_columns() const {
    return min(chunk_columns<Weight>, plan_.columns - next_.from);
  }

  __device__ void go_on(int& place, uint32_t& parity) const {
    if (++place == places_) place = 0, parity ^= 1;
  }
  template <class Present>  // present(column from the lane's first one)
  __device__ void load(int place, uint4 (&raw)[piece_loads], Present&& present) const {
    const char* const from = memory_ + place * place_bytes + own_;
#pragma unroll
    for (int u = 0; u < piece_loads; ++u) {
      const int skipped = exchanged(u) * load_columns<Weight>;
      raw[u] = present(skipped)
                   ? *reinterpret_cast<const uint4*>(from + skipped * int(sizeof(Weight)))
                   : make_uint4(0, 0, 0, 0);
    }
  }

  __device__ void begin_bulk_copies() {
    if (threadIdx.x == 0) {
      for (int i = 0; i < places_; ++i)
        mbarrier_init(barriers_.full[i], 1), mbarrier_init(barriers_.empty[i], few_warps);
      fence_mbarrier_init();
    }
#pragma unroll 1
    for (int i = 0; i < places_ && next_.tile < tiles_; ++i, advance()) {
      if (threadIdx.x != 0) continue;
      if (i >= at_once) mbarrier_wait(barriers_.full[i - at_once], 0);
      copy_bulk(i);
    }
    __syncwarp();
  }
  __device__ void copy_bulk(int place) {
    bulk_copy_rows_async(memory_ + place * place_bytes, stride_ * int(sizeof(Weight)),
                         next_weights(), plan_.columns * int64_t(sizeof(Weight)),
                         min(tile_rows, plan_.rows - next_row()),
                         uint32_t(next_columns() * sizeof(Weight)), barriers_.full[place]);
  }
  // In turn a warp fills the place of the chunk before this one: the others have read that, or will soon.
  __device__ void refill() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      mbarrier_arrive(barriers_.empty[place_]);
      if (taken_ % few_warps == int(threadIdx.x) / 32 && taken_ > 0 && next_.tile < tiles_) {
        const int before = place_ ? place_ - 1 : places_ - 1;
        mbarrier_wait(barriers_.empty[before], place_ ? parity_ : parity_ ^ 1);
        copy_bulk(before);
      }
    }
    if (taken_++ > 0 && next_.tile < tiles_) advance();
    __syncwarp();
  }

  // A group of copies for each chunk, also where there is none: they are counted.
  __device__ void begin_own_copies(int row, int column) {
    row_ = row, column_ = column;
#pragma unroll 1
    for (int i = 0; i < places_; ++i) copy_own(i);
  }
  __device__ void copy_own(int place) {
    if (next_.tile < tiles_) {
      char* const to = memory_ + place * place_bytes + own_;
      const Weight* const from = next_weights() + int64_t(row_) * plan_.columns + column_;
      const uint64_t policy = evict_first_policy();
#pragma unroll
      for (int u = 0; u < piece_loads; ++u) {
        const int skipped = u * load_columns<Weight>;
        if (next_row() + row_ < plan_.rows && column_ + skipped < next_columns())
          copy_async(reinterpret_cast<uint4*>(to + skipped * int(sizeof(Weight))), from + skipped,
                     true, policy);
      }
      advance();
    }
    commit_group();
  }
  // So many groups are behind that of the chunk.
  __device__ static void wait_for_own(int behind) {
    static_assert(depth == 8);
    switch (behind) {
      case 7:
        return wait_group<7>();
      case 6:
        return wait_group<6>();
      case 5:
        return wait_group<5>();
      case 4:
        return wait_group<4>();
      case 3:
        return wait_group<3>();
      case 2:
        return wait_group<2>();
      case 1:
        return wait_group<1>();
      default:
        return wait_group<0>();
    }
  }

  const TilePlan<Weight>& plan_;
  char* memory_;
  Barriers& barriers_;
  int places_, tiles_, stride_;
  int own_;                   // bytes from a chunk's begin to the lane's first weights
  int row_ = 0, column_ = 0;  // of these
  Next next_;
  int place_ = 0;
  uint32_t parity_ = 0;
  int taken_ = 0;  // chunks, where there are more than places
};

}  // namespace deltasane::kernel::cuda
