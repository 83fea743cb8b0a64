// What a model remembers of one sequence: a value that can be copied, kept and resumed. Its parts
// are those of the model's StateLayout.
//
// A model on a device keeps the numbers there (DeviceState); they are downloaded when the host
// first reads them, and then both copies are the same. Writing on the host drops the device's copy.
// Memory on the host is allocated when it is first used there.
// Reading is safe from several threads; writing is not.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "model/state/state_layout.h"
#include "tensor/tensor.h"

namespace deltasane {

// The numbers of a state on the host.
struct StateNumbers {
  Tensor<float> fixed;                     // (layout.floats())
  std::vector<std::vector<float>> caches;  // (rows, one row's floats) each
};

// The numbers of a state in a device's memory.
class DeviceState {
 public:
  struct Magnitudes {
    float memory = 0, others = 0;  // the largest |value|; infinity where one is not finite
  };
  virtual ~DeviceState() = default;
  virtual std::unique_ptr<DeviceState> clone() const = 0;
  virtual void download(StateNumbers& to) const = 0;  // `to` has the layout's sizes
  virtual Magnitudes largest() const = 0;
  virtual std::vector<double> head_norms() const = 0;  // by head of the layout, Frobenius
};

class SequenceState {
 public:
  int64_t position = 0;  // tokens read since the beginning of the stream
  // By head of the layout: SANE's alpha for this sequence from here on; empty: the model's for all.
  std::vector<float> alphas;

  SequenceState() = default;
  explicit SequenceState(std::shared_ptr<const StateLayout> layout);  // all zero, no rows in caches

  const StateLayout& layout() const { return *layout_; }
  const std::shared_ptr<const StateLayout>& shared_layout() const { return layout_; }

  std::span<const float> fixed() const { return on_host().fixed.span(); }
  std::span<const float> of(const StatePart& part) const;  // a cache: all its rows
  std::span<const float> of(const StateHead& head) const;
  std::span<const float> cache(int64_t number) const { return on_host().caches[size_t(number)]; }
  std::span<float> mutable_fixed() { return changed_on_host().fixed.span(); }
  std::span<float> mutable_of(const StatePart& part);
  std::vector<float>& mutable_cache(int64_t number) {
    return changed_on_host().caches[size_t(number)];
  }
  uint64_t bytes() const;  // of all numbers
  bool is_fresh() const { return is_fresh_; }  // all zero, as it was made

  SequenceState clone() const;
  SequenceState clone_on_host() const;  // without the device's copy

  // For models on a device, which call these while nobody else uses the state.
  DeviceState* on_device() const { return device_.get(); }
  void keep_on_device(std::unique_ptr<DeviceState> device) { device_ = std::move(device); }
  void changed_on_device();
  // Without a download; absent where the numbers are on the host.
  std::optional<DeviceState::Magnitudes> largest_on_device() const;
  std::optional<std::vector<double>> head_norms_on_device() const;

 private:
  bool is_on_host() const;
  const StateNumbers& on_host() const;
  StateNumbers& changed_on_host();

  static const std::shared_ptr<const StateLayout>& no_layout();

  std::shared_ptr<const StateLayout> layout_ = no_layout();
  mutable StateNumbers numbers_;  // empty until they are used
  mutable bool is_on_host_ = true;
  bool is_fresh_ = true;
  std::unique_ptr<DeviceState> device_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // of the first download
};

}  // namespace deltasane
