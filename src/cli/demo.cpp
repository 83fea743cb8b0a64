#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cmath>

#include "base/random.h"
#include "cli/command.h"
#include "kernel/delta_rule/delta_rule.h"
#include "tensor/tensor.h"

namespace deltasane::cli {
namespace {

struct DemoOptions {
  int64_t tokens = 262144;
  double alpha = 3;
  uint64_t seed = 1;
};

// One head of 64 x 64 that hardly forgets, fed the same kind of tokens twice: as it is, and with
// SANE. The recurrence alone, no model: this shows what the kernels compute.
class Stream {
 public:
  explicit Stream(double tau) : state_({1, 1, n, n}), y_({1, piece, 1, n}), tau_(tau) {}

  struct Vectors {
    Tensor<float> r, w, k, v, a, b;
  };

  void read(const Vectors& in, int64_t position, ThreadPool& threads) {
    Tensor<float> tau({1, piece / 16, 1});
    tau.fill(float(tau_));
    Tensor<int64_t> start({1});
    start[0] = position;
    kernel::DeltaRule<float> op;
    op.r = in.r.view(), op.w = in.w.view(), op.k = in.k.view();
    op.v = in.v.view(), op.a = in.a.view(), op.b = in.b.view();
    if (tau_ > 0) op.tau = tau.view();
    op.position = start.view();
    op.initial = state_.view();
    op.final_state = state_.view();
    op.y = y_.view();
    kernel::delta_rule(op, {threads});
  }

  double norm() const {
    double squares = 0;
    for (const float s : state_.span()) squares += double(s) * s;
    return std::sqrt(squares);
  }
  double largest() const {
    double most = 0;
    for (const float s : state_.span()) most = std::max(most, std::abs(double(s)));
    return most;
  }

  static constexpr int64_t n = 64, piece = 1024;

 private:
  Tensor<float> state_, y_;
  double tau_;
};

// Keys that lean to one side, decays near 1, and an erase that is a little too strong there: the
// growth that channels without forgetting show far past the training length.
Stream::Vectors draw(Random& random) {
  const Shape shape{1, Stream::piece, 1, Stream::n};
  Stream::Vectors out{Tensor<float>(shape), Tensor<float>(shape), Tensor<float>(shape),
                      Tensor<float>(shape), Tensor<float>(shape), Tensor<float>(shape)};
  for (int64_t t = 0; t < Stream::piece; ++t) {
    double squares = 0;
    const int64_t at = t * Stream::n;
    for (int64_t j = 0; j < Stream::n; ++j) {
      out.r[at + j] = float(random.normal());
      out.v[at + j] = float(0.3 * random.normal() + (j == 7 ? 0.5 : 0.0));
      out.k[at + j] = float(0.1 * random.normal() + (j == 11 ? 0.2 : 0.0));
      out.a[at + j] = float(random.normal());
      out.w[at + j] = j == 11 ? 1.0f : float(random.uniform(0.9, 0.999));
      squares += double(out.a[at + j]) * out.a[at + j];
    }
    for (int64_t j = 0; j < Stream::n; ++j) {
      out.a[at + j] = float(out.a[at + j] / std::sqrt(squares));
      out.b[at + j] = j == 11 ? 0.0f : -out.a[at + j] * float(random.uniform());
    }
  }
  return out;
}

int show_demo(const DemoOptions& options) {
  ThreadPool threads;
  Random random(options.seed);
  const double tau = options.alpha * std::log(2.0) + 1;
  Stream plain(0), sane(tau);
  fmt::print(
      "One 64 x 64 state with one channel that never forgets, {} tokens.\n"
      "SANE with alpha {}: tau = {:.2f}.\n\n",
      options.tokens, options.alpha, tau);
  fmt::print("{:>10}  {:>12} {:>10}   {:>12} {:>10}\n", "", "without SANE", "", "with SANE", "");
  fmt::print("{:>10}  {:>12} {:>10}   {:>12} {:>10}\n", "tokens", "norm", "largest", "norm",
             "largest");
  int64_t next = Stream::piece;
  for (int64_t position = 0; position < options.tokens; position += Stream::piece) {
    const Stream::Vectors in = draw(random);
    plain.read(in, position, threads);
    sane.read(in, position, threads);
    if (position + Stream::piece < next) continue;
    fmt::print("{:>10}  {:>12.4g} {:>10.4g}   {:>12.4g} {:>10.4g}\n", position + Stream::piece,
               plain.norm(), plain.largest(), sane.norm(), sane.largest());
    next *= 4;
  }
  fmt::print(
      "\nWithout SANE the entry grows with the length of the stream. With it, no entry "
      "passes tau\nat a chunk boundary, and the norm stays below 64 tau = {:.0f}.\n",
      64 * tau);
  return 0;
}

}  // namespace

const Command demo{
    "demo", "a state that grows without bound, and the same with SANE", [](CLI::App& app) {
      auto options = std::make_shared<DemoOptions>();
      app.add_option("--tokens", options->tokens, "length of the stream")
          ->check(CLI::Range(int64_t{1024}, int64_t{1} << 40))
          ->capture_default_str();
      app.add_option("--alpha", options->alpha, "strength of SANE: tau = alpha ln 2 + 1")
          ->check(CLI::PositiveNumber)
          ->capture_default_str();
      app.add_option("--seed", options->seed, "seed of the stream")->capture_default_str();
      app.footer("Example:\n  deltasane demo --tokens 1048576 --alpha 5");
      return [options] { return show_demo(*options); };
    }};

}  // namespace deltasane::cli
