// Where the time of a training step goes: an event is recorded in the stream where one kind of work
// ends and another begins. A clock that was not started records nothing.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "tensor/cuda/gpu.h"

namespace deltasane {

enum class Work { products, recurrence_forward, recurrence_backward, rows, head, update };
inline constexpr int kinds_of_work = 6;
inline constexpr std::array<const char*, kinds_of_work> names_of_work{
    "products",       "recurrence forward", "recurrence backward",
    "row operations", "head and loss",      "optimiser"};

class WorkClock {
 public:
  void start() { runs_ = true, marks_.clear(); }

  // What is enqueued next is of this kind.
  void begin(Work work, const Gpu& gpu) {
    if (!runs_ || (!marks_.empty() && marks_.back().first == work)) return;
    marks_.emplace_back(work, TimedGpuEvent());
    marks_.back().second.record(gpu);
  }

  // Waits; milliseconds of each kind since start().
  std::array<double, kinds_of_work> stop(const Gpu& gpu) {
    std::array<double, kinds_of_work> sums{};
    TimedGpuEvent end;
    end.record(gpu);
    end.wait();
    for (size_t i = 0; i < marks_.size(); ++i) {
      const TimedGpuEvent& next = i + 1 < marks_.size() ? marks_[i + 1].second : end;
      sums[size_t(marks_[i].first)] += next.milliseconds_since(marks_[i].second);
    }
    runs_ = false;
    return sums;
  }

 private:
  bool runs_ = false;
  std::vector<std::pair<Work, TimedGpuEvent>> marks_;
};

}  // namespace deltasane
