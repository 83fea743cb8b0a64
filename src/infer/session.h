// A model reading one stream: the state it carries, the logits after the last token, and what
// happens when numbers overflow.
//
// The state is scanned when tokens have been read, at chunk boundaries. With OnOverflow::stop a
// state that is not finite is an error which names the position, layer and head; the state is left
// as it was before the chunk that broke it. With reset the memory is cleared there, the position
// goes on, and the rest of the input is read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "infer/finite.h"
#include "infer/sampler.h"
#include "infer/state_file.h"
#include "model/rwkv7/model.h"

namespace deltasane {

class Session {
 public:
  Session(const Rwkv7& model, const kernel::Cpu& cpu, OnOverflow on_overflow = OnOverflow::stop);

  void read(std::span<const int32_t> tokens);
  std::span<const float> logits() const { return logits_.span(); }  // after the last read()
  // Reads a token and picks the next one: on a GPU there, and logits() stays as it was.
  int32_t read_and_pick(int32_t token, Sampler& sampler);
  const RecurrentState& state() const { return state_; }
  void reset() { state_ = model_.fresh_state(); }

  // Called with the message of each overflow that was reset.
  std::function<void(const std::string&)> on_reset = [](const std::string&) {};

  // State files: what belongs to the model is filled in and checked here.
  void save(const fs::path& path, const std::string& model_name, StateStamp stamp) const;
  StateStamp load(const fs::path& path, const std::string& model_name, OtherSane other_sane);

 private:
  void read_block(std::span<const int32_t> tokens);
  bool is_whole(bool broken_logits);
  void find_the_break(std::span<const int32_t> tokens, const RecurrentState& before);

  const Rwkv7& model_;
  kernel::Cpu cpu_;
  OnOverflow on_overflow_;
  RecurrentState state_;
  Tensor<float> logits_;
};

}  // namespace deltasane
