// Matrices of one shape are processed in batches. Where a matrix has more rows than columns nothing
// is transposed: x x' of the transposed matrix is x' x of the matrix as stored.
#include "kernel/muon/cuda.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256;
constexpr int64_t piece = threads * octet * 4;        // elements of a block
constexpr int64_t most_elements = int64_t{64} << 20;  // of the matrices of a batch
constexpr float of_x = float(newton_schulz_a), of_a = float(newton_schulz_b),
                of_aa = float(newton_schulz_c);

struct Place {
  int64_t offset;
  double decay;
};

// A batch of matrices of one shape, and where they are in the buffers. blockIdx: (piece, matrix)
struct Batch {
  const Place* places;
  int64_t elements;  // of one
};

template <class Body>
__device__ void each_octet(int64_t elements, Body body) {
  const int64_t begin = int64_t(blockIdx.x) * piece;
#pragma unroll
  for (int i = 0; i < int(piece / (threads * octet)); ++i) {
    const int64_t at = begin + (int64_t(i) * threads + threadIdx.x) * octet;
    if (at < elements) body(at);
  }
}

// Over a block, in the order of its threads; thread 0 gets it.
__device__ float block_sum(float x) {
  __shared__ float of_warp[threads / 32];
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x != 0) return x;
  x = 0;
  for (const float y : of_warp) x += y;
  return x;
}

// m <- mu m + g, and the squares of g + mu m
__global__ void __launch_bounds__(threads)
    add_momentum(const Batch all, const GradientNorm* norm, float mu, const float* gradient,
                 float* momentum, float* partial) {
  if (!norm->finite) return;
  const float clip = norm->scale;
  const int64_t offset = all.places[blockIdx.y].offset;
  float squares = 0;
  each_octet(all.elements, [&](int64_t at) {
    float g[octet], m[octet];
    load(gradient + offset + at, g);
    load(momentum + offset + at, m);
#pragma unroll
    for (int j = 0; j < octet; ++j) {
      m[j] = mu * m[j] + clip * g[j];
      const float u = clip * g[j] + mu * m[j];
      squares += u * u;
    }
    store(momentum + offset + at, m);
  });
  squares = block_sum(squares);
  if (threadIdx.x == 0) partial[int64_t(blockIdx.y) * gridDim.x + blockIdx.x] = squares;
}

// 1 / (|u| + 1e-7) of matrix blockIdx.x
__global__ void __launch_bounds__(threads)
    invert_norms(const float* partial, int64_t pieces, float* inverse) {
  float sum = 0;
  for (int64_t i = threadIdx.x; i < pieces; i += threads) sum += partial[blockIdx.x * pieces + i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) inverse[blockIdx.x] = 1.0f / (sqrtf(sum) + 1e-7f);
}

// x = (g + mu m) / |g + mu m|
__global__ void __launch_bounds__(threads)
    divide(const Batch all, const GradientNorm* norm, float mu, const float* gradient,
           const float* momentum, const float* inverse, bf16* x) {
  if (!norm->finite) return;
  const float clip = norm->scale, factor = inverse[blockIdx.y];
  const int64_t offset = all.places[blockIdx.y].offset;
  each_octet(all.elements, [&](int64_t at) {
    float g[octet], m[octet];
    load(gradient + offset + at, g);
    load(momentum + offset + at, m);
#pragma unroll
    for (int j = 0; j < octet; ++j) m[j] = (clip * g[j] + mu * m[j]) * factor;
    store(x + blockIdx.y * all.elements + at, m);
  });
}

// A becomes 3.4445 I - 4.7750 A + 2.0315 A A; (count, n, n)
template <int width>
__global__ void __launch_bounds__(threads)
    polynomial(bf16* A, const float* AA, int64_t n, int64_t elements) {
  const int64_t step = int64_t(gridDim.x) * threads * width;
  for (int64_t at = (int64_t(blockIdx.x) * threads + threadIdx.x) * width; at < elements;
       at += step) {
    float a[width], aa[width];
    load_channels<width>(A + at, a);
    load_channels<width>(AA + at, aa);
    const int64_t row = at / n % n, column = at % n;
#pragma unroll
    for (int j = 0; j < width; ++j)
      a[j] = of_a * a[j] + of_aa * aa[j] + (row == column + j ? of_x : 0.0f);
    store_channels<width>(A + at, a);
  }
}

// w = (1 - rate decay) w - change x
__global__ void __launch_bounds__(threads)
    change_parameters(const Batch all, const GradientNorm* norm, double rate, float change,
                      const bf16* x, float* parameters, bf16* copy) {
  if (!norm->finite) return;
  const Place place = all.places[blockIdx.y];
  const float kept = float(1 - rate * place.decay);
  each_octet(all.elements, [&](int64_t at) {
    float w[octet], u[octet];
    load(parameters + place.offset + at, w);
    load(x + blockIdx.y * all.elements + at, u);
#pragma unroll
    for (int j = 0; j < octet; ++j) w[j] = kept * w[j] - change * u[j];
    store(parameters + place.offset + at, w);
    if (copy) store(copy + place.offset + at, w);
  });
}

unsigned pieces_of(int64_t elements) { return unsigned((elements + piece - 1) / piece); }

// Slots of one shape: their places are [first, first + count) of the table.
struct ShapeGroup {
  int64_t rows, columns, first, count;
  int64_t elements() const { return rows * columns; }
  int64_t smaller() const { return std::min(rows, columns); }
  int64_t batch() const { return std::clamp<int64_t>(most_elements / elements(), 1, count); }
};

}  // namespace

struct Muon::State {
  std::vector<ShapeGroup> groups;
  GpuTensor<Place> places;
  GpuTensor<bf16> x, next, A;
  GpuTensor<float> AA, partial, inverse;

  State(const Gpu& gpu, std::span<const MuonSlot> slots) {
    std::map<std::pair<int64_t, int64_t>, std::vector<Place>> by_shape;
    for (const MuonSlot& slot : slots) {
      require(slot.offset % octet == 0 && slot.rows * slot.columns % octet == 0,
              "Muon on a GPU: matrices start at, and have, multiples of eight numbers");
      by_shape[{slot.rows, slot.columns}].push_back({slot.offset, slot.decay});
    }
    std::vector<Place> all;
    int64_t most_x = 0, most_a = 0, most_partial = 0, most_batch = 0;
    for (const auto& [shape, of_shape] : by_shape) {
      const ShapeGroup group{shape.first, shape.second, int64_t(all.size()),
                             int64_t(of_shape.size())};
      groups.push_back(group);
      all.insert(all.end(), of_shape.begin(), of_shape.end());
      const int64_t batch = group.batch(), n = group.smaller();
      most_x = std::max(most_x, batch * group.elements());
      most_a = std::max(most_a, batch * n * n);
      most_partial = std::max(most_partial, batch * int64_t(pieces_of(group.elements())));
      most_batch = std::max(most_batch, batch);
    }
    places = GpuTensor<Place>(gpu, {int64_t(all.size())}, "Muon's slots");
    places.upload(all, gpu);
    x = GpuTensor<bf16>(gpu, {most_x}, "Muon's matrices");
    next = GpuTensor<bf16>(gpu, {most_x}, "Muon's matrices");
    A = GpuTensor<bf16>(gpu, {most_a}, "Muon's squares");
    AA = GpuTensor<float>(gpu, {most_a}, "Muon's squares");
    partial = GpuTensor<float>(gpu, {most_partial}, "Muon's norms");
    inverse = GpuTensor<float>(gpu, {most_batch}, "Muon's norms");
  }

  // x, (count, rows, columns), becomes its Newton-Schulz.
  void newton_schulz(const ShapeGroup& group, int64_t count, Products& products, const Gpu& gpu) {
    using Form = Products::Form;
    const int64_t rows = group.rows, columns = group.columns, n = group.smaller();
    const int64_t size = group.elements(), square = n * n;
    const bool tall = rows > columns;
    for (int step = 0; step < newton_schulz_steps; ++step) {
      products.multiply<bf16, bf16>({tall ? Form::tn : Form::nt, n, n, tall ? rows : columns,
                                     x.data(), x.data(), A.data(), false, count, size, size,
                                     square});
      products.multiply<bf16, float>(
          {Form::nn, n, n, n, A.data(), A.data(), AA.data(), false, count, square, square, square});
      with_width(n % octet == 0, [&]<int width>() {
        launch(polynomial<width>, {pieces_of(count * square), threads}, gpu, A.data(), AA.data(), n,
               count * square);
      });
      if (tall)
        products.multiply<bf16, bf16>({Form::nn, rows, n, n, x.data(), A.data(), next.data(), false,
                                       count, size, square, size});
      else
        products.multiply<bf16, bf16>({Form::nn, n, columns, n, A.data(), x.data(), next.data(),
                                       false, count, square, size, size});
      std::swap(x, next);
    }
  }
};

Muon::Muon(const Gpu& gpu, std::span<const MuonSlot> slots)
    : state_(std::make_unique<State>(gpu, slots)) {}
Muon::~Muon() = default;

void Muon::step(const MuonParams& n, const GradientNorm* norm, const Buffers& buffers,
                Products& products, const Gpu& gpu) {
  require_aligned(buffers.parameters, buffers.copy, buffers.gradient, buffers.momentum);
  State& s = *state_;
  const float mu = float(n.momentum);
  for (const ShapeGroup& group : s.groups)
    for (int64_t done = 0; done < group.count; done += group.batch()) {
      const int64_t count = std::min(group.batch(), group.count - done);
      const int64_t pieces = pieces_of(group.elements());
      const Batch all{s.places.data() + group.first + done, group.elements()};
      const Grid grid{dim3(unsigned(pieces), unsigned(count)), threads};
      const double largest = double(std::max(group.rows, group.columns));
      launch(add_momentum, grid, gpu, all, norm, mu, buffers.gradient, buffers.momentum,
             s.partial.data());
      launch(invert_norms, {unsigned(count), threads}, gpu, s.partial.data(), pieces,
             s.inverse.data());
      launch(divide, grid, gpu, all, norm, mu, buffers.gradient, buffers.momentum, s.inverse.data(),
             s.x.data());
      s.newton_schulz(group, count, products, gpu);
      launch(change_parameters, grid, gpu, all, norm, n.rate,
             float(n.rate * 0.2 * std::sqrt(largest)), s.x.data(), buffers.parameters,
             buffers.copy);
    }
}

}  // namespace deltasane::kernel::cuda
