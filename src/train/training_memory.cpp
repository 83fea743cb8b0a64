#include "train/training_memory.h"

#include <algorithm>
#include <optional>

#include "comm/local_rank.h"
#include "model/device.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::train {
namespace {

// The CUDA context, workspaces of matrix products and of the recurrence, Muon's matrices.
constexpr uint64_t gpu_workspaces = uint64_t{2} << 30;
// Of all memory; the rest is for workspaces of operators, the corpus, and other programs.
constexpr double usable_share = 0.9;
// On the CPU more tokens at a time are not faster.
constexpr int64_t cpu_pass_tokens = 8192;

uint64_t floats(const TrainableModel& model) {
  return uint64_t(model.layout().elements()) * sizeof(float);
}

int64_t rows_of_process(const TrainConfig& config, int processes) {
  const int64_t rows = config.rows ? config.rows : config.sequences;
  if (rows % processes != 0)
    fail(Fault::usage, config.rows ? "optimizer.rows" : "optimizer.sequences",
         ": expected a multiple of the ", processes, " processes, found ", rows);
  return rows / processes;
}

std::vector<Activations> allowed_activations(const TrainConfig& config) {
  if (!config.run.recompute) return {Activations::keep, Activations::recompute};
  return {*config.run.recompute ? Activations::recompute : Activations::keep};
}

// The process's GPU, by its rank on its machine unless it is named.
int gpu_of(const std::string& name, const comm::LocalRank& here, bool share) {
  if (name != "cuda") return *device_named(name).gpu;
  const int gpus = Gpu::count();
  if (share && gpus > 0) return here.rank % gpus;
  return comm::own_gpu(here, gpus, "let them share with run.share_gpu = true");
}

}  // namespace

uint64_t BytesNeeded::total() const {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::string BytesNeeded::text() const {
  std::string list;
  for (const Part& part : parts)
    list += cat(list.empty() ? "" : ", ", part.what, " ", bytes_text(part.bytes));
  return cat(bytes_text(total()), " (", list, ")");
}

BytesNeeded device_memory(const TrainableModel& model, const PassSettings& pass, Place place) {
  const uint64_t all = floats(model);
  const PassMemory of_pass =
      place == Place::gpu ? model.gpu_pass_memory(pass) : model.cpu_pass_memory(pass);
  const bool rounds = place == Place::gpu && pass.precision == Precision::bf16;
  BytesNeeded need{{{"weights", rounds ? all + all / 2 : all},
                   {"gradient", all},
                   {"optimizer", 2 * all},
                   {pass.activations == Activations::keep ? "activations" : "layer inputs",
                    of_pass.activations},
                   {"logits and gradients of activations", of_pass.rest}}};
  if (place == Place::gpu) need.parts.push_back({"workspaces", gpu_workspaces});
  return need;
}

BytesNeeded host_memory_beside_gpu(const TrainableModel& model) {
  return {{{"weights", floats(model)}, {"optimizer", 2 * floats(model)}}};
}

RowSplit split_rows(const TrainConfig& config, int processes, const Fits& fits) {
  const int64_t own = rows_of_process(config, processes);
  const std::vector<Activations> allowed = allowed_activations(config);
  const auto kept = [&](int64_t micro_batch) {
    const auto found =
        std::ranges::find_if(allowed, [&](Activations one) { return fits(micro_batch, one); });
    return found == allowed.end() ? allowed.back() : *found;
  };
  if (!config.rows) return {own, config.accumulate, kept(own)};
  if (const int64_t wanted = config.run.micro_batch) {
    if (own % wanted != 0)
      fail(Fault::usage, "run.micro_batch: expected a divisor of the ", own,
           " rows of each process, found ", wanted);
    return {wanted, own / wanted, kept(wanted)};
  }
  for (const Activations activations : allowed)
    for (int64_t micro_batch = own; micro_batch > 0; --micro_batch)
      if (own % micro_batch == 0 && fits(micro_batch, activations))
        return {micro_batch, own / micro_batch, activations};
  return {1, own, allowed.back()};
}

TrainingPlan plan_training(const TrainConfig& config, const TrainableModel& model,
                           comm::Group& group) {
  TrainingPlan plan;
  const comm::LocalRank here = comm::local_rank(group);
  const bool on_gpu = device_named(config.run.device).gpu.has_value();
  const Place place = on_gpu ? Place::gpu : Place::cpu;
  plan.device = "cpu";
  plan.host_found = host_memory_size().part(here.size);
  plan.host_found.free += floats(model);  // the weights are there already
  plan.found = plan.host_found;
  if constexpr (built_with_cuda)
    if (on_gpu) {
      model.expect_gpu_support();
      const bool share = config.run.sums.share_gpu;
      const Gpu gpu(gpu_of(config.run.device, here, share));
      plan.device = cat("cuda:", gpu.index());
      const int sharing = share ? (here.size + Gpu::count() - 1) / Gpu::count() : 1;
      plan.found = MemorySize{gpu.properties().memory_bytes, gpu.free_bytes()}.part(sharing);
    }
  const auto pass = [&](int64_t micro_batch, Activations activations) {
    return PassSettings{micro_batch, config.context, activations, config.precision};
  };
  const auto fits = [&](int64_t micro_batch, Activations activations) {
    if (!on_gpu && micro_batch > 1 && micro_batch * config.context > cpu_pass_tokens &&
        config.rows && !config.run.micro_batch)
      return false;
    const uint64_t need = device_memory(model, pass(micro_batch, activations), place).total();
    return double(need) <= usable_share * double(plan.found.total);
  };
  plan.split = split_rows(config, group.size(), fits);
  // The least of all processes: what fits one with little memory fits the others.
  const int64_t own = plan.split.micro_batch * plan.split.accumulate;
  const auto all = group.all_gather(uint64_t(plan.split.micro_batch));
  plan.split.micro_batch = int64_t(std::ranges::min(all));
  plan.split.accumulate = own / plan.split.micro_batch;
  plan.pass = pass(plan.split.micro_batch, plan.split.activations);
  plan.need = device_memory(model, plan.pass, place);
  if (on_gpu) plan.host_need = host_memory_beside_gpu(model);
  return plan;
}

void TrainingPlan::expect_fit(const TrainConfig& config) const {
  const auto expect = [&](const std::string& where, const BytesNeeded& wanted, uint64_t free) {
    if (wanted.total() <= free) return;
    std::string advice;
    if (split.micro_batch > 1)
      advice += config.rows ? "a smaller run.micro_batch, "
                            : "fewer optimizer.sequences with more optimizer.accumulate, ";
    if (split.activations == Activations::keep) advice += "run.recompute = true, ";
    fail(Fault::device, "memory of ", where, ": expected at least ", wanted.text(), ", found ",
         bytes_text(free), " free; free some, or try ", advice,
         "a shorter optimizer.context or a smaller model");
  };
  if (!host_need.parts.empty()) expect("the host", host_need, host_found.free);
  expect(host_need.parts.empty() ? "the host" : device, need, found.free);
}

}  // namespace deltasane::train
