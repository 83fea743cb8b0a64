// A model that can be trained, whatever its architecture: what src/train sees of it.
//
// A TrainableModel has the parameters as one row of floats (parameters.h) and makes passes over
// batches of one size: forward with kept activations, loss, backward. Passes take parameters and
// gradients from the caller, so that a device may keep its own copies.
//
// How an architecture makes such models is its TrainableFactory, a part of its line in the registry.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/io/file.h"
#include "format/contents/finite.h"
#include "format/stored_type.h"
#include "kernel/cpu_device.h"
#include "model/gpu/work_clock.h"
#include "model/train/gradient_buckets.h"
#include "model/language_model.h"
#include "model/train/parameters.h"
#include "model/train/rounding.h"
#include "model/train/training_batch.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {

// Every layer's activations are kept for the backward pass, or only its input, from which they are
// computed again. The results are the same bit for bit.
enum class Activations { keep, recompute };

// The batches that a pass has buffers for.
struct PassSettings {
  int64_t sequences = 1, time = 1;
  Activations activations = Activations::keep;
  Precision precision = Precision::fp32;  // on the CPU; on a GPU it is the pass's type
};

// What a pass allocates, in bytes.
struct PassMemory {
  uint64_t activations = 0;  // kept from forward for backward
  uint64_t rest = 0;         // logits, gradients of activations, copies of operands
  uint64_t total() const { return activations + rest; }
};

// On the CPU. Results do not depend on the number of threads.
class GradientPass {
 public:
  virtual ~GradientPass() = default;

  // The loss; its gradient is added to `gradient` (in the layout). Ids must be in the vocabulary.
  virtual double gradient(std::span<const float> parameters, const TrainingBatch& batch,
                          const LossSettings& settings, std::span<float> gradient,
                          const kernel::Cpu& cpu, const GradientReady& ready = {}) = 0;
  // The loss alone.
  virtual double loss(std::span<const float> parameters, const TrainingBatch& batch,
                      const LossSettings& settings, const kernel::Cpu& cpu) = 0;
  // Of the last call, the processors' time for what SANE has a part in: recurrence and tau.
  virtual double recurrence_seconds() const = 0;
  virtual uint64_t bytes() const = 0;  // allocated by now, but for workspaces of operators
};

// Parameters on the GPU, in the layout.
template <class Real>
struct GpuParameters {
  const float* parameters;
  const Real* rounded;  // the same as products read them; `parameters` where Real is float
};

// On a GPU; Real, float or bf16, is the type of products and activations. Two equal calls give
// equal bits.
template <class Real>
class GpuGradientPass {
 public:
  virtual ~GpuGradientPass() = default;

  // Adds the loss to *loss and its gradient to `gradient`, both on the GPU; null: the loss alone.
  // Enqueues the work and does not wait for it; the batch may go when this returns.
  virtual void add(const GpuParameters<Real>& model, const TrainingBatch& batch,
                   const LossSettings& settings, float* gradient, double* loss,
                   const GradientReady& ready = {}) = 0;

  // For a benchmark: whether the next passes of a model with SANE are with it, or as if it had
  // none.
  virtual void neutralize(bool on) = 0;
  virtual WorkClock& clock() = 0;
  virtual uint64_t bytes() const = 0;  // of activations and buffers
};

struct TrainableDescription {
  std::string_view title;  // of the architecture, for people
  int64_t layers = 0, channels = 0, vocabulary = 0;
  double recurrence_flops = 0;  // forward and backward, of one token
};

class TrainableModel {
 public:
  explicit TrainableModel(Parameters parameters) : parameters_(std::move(parameters)) {}
  virtual ~TrainableModel() = default;

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }
  const ParameterLayout& layout() const { return parameters_.layout(); }
  const std::optional<SaneSettings>& sane() const { return parameters_.sane(); }

  virtual TrainableDescription description() const = 0;
  // Whether the two are one model, but for the values of their parameters.
  virtual bool same_model(const TrainableModel& other) const = 0;
  virtual std::unique_ptr<TrainableModel> clone() const = 0;

  virtual std::unique_ptr<GradientPass> gradient_pass(const PassSettings& settings) const = 0;
  // What it will allocate. On a GPU settings.precision is that of products and activations; needs
  // no GPU, but a build that has them.
  virtual PassMemory cpu_pass_memory(const PassSettings& settings) const = 0;
  virtual PassMemory gpu_pass_memory(const PassSettings&) const { refuse_gpu(); }

  // Fails with what to do instead where the operators on a GPU do not have what the model needs.
  // Needs no GPU. An architecture that is trained on CPUs only leaves this and the next two.
  virtual void expect_gpu_support() const { refuse_gpu(); }
  virtual std::unique_ptr<GpuGradientPass<float>> gpu_gradient_pass_f32(const PassSettings&,
                                                                        const Gpu&) const {
    refuse_gpu();
  }
  virtual std::unique_ptr<GpuGradientPass<bf16>> gpu_gradient_pass_bf16(const PassSettings&,
                                                                        const Gpu&) const {
    refuse_gpu();
  }

  // As a checkpoint that every command reads: safetensors, float32.
  virtual void save(const fs::path& path) const = 0;
  // As inference uses it, on the CPU. Good for as long as this model lives and its parameters do
  // not change.
  virtual std::unique_ptr<LanguageModel> open_for_inference() const = 0;

 private:
  [[noreturn]] void refuse_gpu() const {
    fail(Fault::usage, "device: expected cpu to train ", description().title, ", found a GPU");
  }
  Parameters parameters_;
};

// make(), whose functions a build without CUDA does not have.
template <class Make>
std::invoke_result_t<Make> with_cuda(const Make& make) {
  if constexpr (built_with_cuda)
    return make();
  else
    fail(Fault::device, "a build without CUDA names no GPU");
}

template <class Real>
std::unique_ptr<GpuGradientPass<Real>> gpu_gradient_pass(const TrainableModel& model,
                                                         const PassSettings& settings,
                                                         const Gpu& gpu) {
  if constexpr (std::is_same_v<Real, float>)
    return model.gpu_gradient_pass_f32(settings, gpu);
  else
    return model.gpu_gradient_pass_bf16(settings, gpu);
}

struct ModelSizes {
  int64_t layers = 0, channels = 0, head_size = 64, vocabulary = 0;
  std::string kind{};     // of model, where an architecture has several; empty: its first
  double beta_scale = 0;  // beta = beta_scale sigmoid(..); 0: the kind's own
};
// Of an architecture that has no beta.
inline void expect_no_beta_scale(const ModelSizes& sizes) {
  if (sizes.beta_scale != 0)
    fail(Fault::usage, "beta_scale: expected none for this architecture, found ",
         sizes.beta_scale);
}

// Normal, for measurements: numbers as large as those of orthogonal matrices, which take a minute
// to make for a 0.4B; and small ones where matrices begin with 0, as after some steps: products of
// zeros take less power, and so less time, than any others.
enum class InitialMatrices { orthogonal, normal };

// The shifts make a model that hardly forgets, as a long pretraining would: -12 and -1.5 show the
// failure that SANE is for, in a model of a few million parameters.
struct Initialisation {
  uint64_t seed = 1;
  double decay_bias_shift = 0;  // added to the biases of the decay
  double rate_bias_shift = 0;   // added to those of the in-context learning rate
  InitialMatrices matrices = InitialMatrices::orthogonal;
};

// Of a benchmark: all random, whose states are large beside tau, so that SANE has the most to do;
// or those that training begins with.
enum class BenchWeights { random, initial };

struct GraftRequest {
  fs::path from, to;  // to: safetensors
  SaneSettings sane;
  std::optional<StoredType> type;  // none: that of the file
  NonFiniteWeights non_finite = NonFiniteWeights::refuse;
};
struct GraftReport {
  StoredType type;
  int64_t added = 0;  // parameters
};

struct TrainableFactory {
  using Model = std::unique_ptr<TrainableModel>;
  std::string_view architecture;  // as checkpoints name it

  // From scratch, drawn from a seed.
  Model (*initialise)(const ModelSizes& sizes, const std::optional<SaneSettings>& sane,
                      const Initialisation& settings, const kernel::Cpu& cpu);
  // From a checkpoint of any origin. With `sane`, a model without SANE gets it grafted (x_tau = 0,
  // w_tau = 0: tau is alpha ln 2 + 1 everywhere); one that has other settings is refused.
  Model (*open)(const fs::path& path, const std::optional<SaneSettings>& sane);
  // What TrainableModel::save wrote.
  Model (*restore)(const fs::path& path);
  // Of a released size, such as 0.4B, for measurements.
  Model (*released)(std::string_view size, BenchWeights weights, bool sane, const kernel::Cpu& cpu);
  // Adds SANE's parameters to a model file. Fails where it has them.
  GraftReport (*graft)(const GraftRequest& request);
  // How many parameters a model from scratch has; nothing is allocated.
  int64_t (*parameters)(const ModelSizes& sizes, const std::optional<SaneSettings>& sane);
};

// By an architecture's name; an empty one: the first there is. Another name fails.
const TrainableFactory& trainable_factory(std::string_view architecture);
// By the architecture of a model file, whose name `architecture` is, or empty. Another fails.
const TrainableFactory& trainable_factory_of(const fs::path& file,
                                             std::string_view architecture = "");

}  // namespace deltasane
