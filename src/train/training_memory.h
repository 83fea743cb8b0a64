// What a run will allocate, and how the rows of a step are split so that it fits.
//
// The sizes come from the model's own description (TrainableModel::cpu_pass_memory and
// gpu_pass_memory); parameters, gradient and optimizer state are four floats for each parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/io/host_memory.h"
#include "comm/group.h"
#include "model/train/trainable_model.h"
#include "train/config.h"

namespace deltasane::train {

struct BytesNeeded {
  struct Part {
    std::string_view what;
    uint64_t bytes;
  };
  std::vector<Part> parts;
  uint64_t total() const;
  std::string text() const;  // "7.2 GB (weights 1.8 GB, gradient 1.8 GB, ...)"
};

enum class Place { cpu, gpu };
// In the memory of the device, and in the host's beside a GPU.
BytesNeeded device_memory(const TrainableModel& model, const PassSettings& pass, Place place);
BytesNeeded host_memory_beside_gpu(const TrainableModel& model);

// How one process computes its rows of a step: `accumulate` passes over `micro_batch` rows.
struct RowSplit {
  int64_t micro_batch = 1, accumulate = 1;
  Activations activations = Activations::keep;
  friend bool operator==(const RowSplit&, const RowSplit&) = default;
};
// With optimizer.rows: the largest micro-batch that divides the rows of a process and fits, with
// activations kept where that fits too, unless [run] says otherwise; rows of one where nothing
// fits. Otherwise sequences and accumulate, as they are. Fails where the processes cannot have
// equally many rows.
using Fits = std::function<bool(int64_t micro_batch, Activations activations)>;
RowSplit split_rows(const TrainConfig& config, int processes, const Fits& fits);

// A run before it allocates anything large: where, how, what that takes, and what there is.
struct TrainingPlan {
  std::string device;  // "cpu" or "cuda:N"
  RowSplit split;
  BytesNeeded need, host_need;  // host_need: beside a GPU; no parts on the CPU
  MemorySize found, host_found;
  PassSettings pass;

  // Fails where more is needed than is free, and says what to change.
  void expect_fit(const TrainConfig& config) const;
};
// The same split on all processes of the job. It depends on how much memory there is, not on how
// much is free, so that a run that is resumed on the same machines is split alike.
TrainingPlan plan_training(const TrainConfig& config, const TrainableModel& model,
                           comm::Group& group);

}  // namespace deltasane::train
