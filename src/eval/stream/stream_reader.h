// One stream: a source's tokens, the model's state, and how well each token was predicted; and
// several of them read side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "eval/stream/stream_folder.h"
#include "model/tau_record.h"

namespace deltasane {

class StreamReader {
 public:
  enum class Strength { fixed, adaptive };  // of SANE

  StreamReader(const StreamParts& parts, int64_t stream, Strength strength);  // at the beginning
  StreamReader(const StreamParts& parts, int64_t stream, Strength strength,
               const StreamPlace& place, SequenceState state);

  // Reads up to a position, or until the state breaks, in each stream that is not broken. All are
  // at one position. A block in which one breaks is read again one by one, so that a stream's break
  // is found as if it were alone.
  static void read_to(int64_t position, std::span<StreamReader> readers);
  // Forgets what the last segment was.
  void begin_segment();

  int64_t stream() const { return stream_; }
  bool broken() const { return place_.overflow.has_value(); }
  const SequenceState& state() const { return state_; }
  const TauRecord* taus() const { return has_sane_ ? &taus_ : nullptr; }
  StreamPlace place() const;
  int64_t segment_tokens() const { return segment_tokens_; }
  double segment_loss() const { return segment_loss_; }
  std::span<const double> segment_losses() const { return segment_losses_; }  // of each token

 private:
  // Tokens to read with what they cost, and how things stood before.
  struct Block {
    std::vector<int32_t> tokens;  // and the one that comes next
    std::vector<double> losses;
    SequenceState state;
    TauRecord taus;
    AdaptiveSane adaptive;
  };
  int64_t block_until(int64_t position) const;
  Block begin_block(int64_t tokens);
  SequenceInput scored(std::span<const int32_t> tokens, std::span<double> losses);
  bool is_finite(std::span<const double> losses) const;
  void end_block(const Block& block);
  void go_back(const Block& block);
  // What the tokens that follow cost; whether all numbers are finite.
  bool try_block(std::span<const int32_t> tokens, std::span<double> losses);
  void locate_overflow(std::span<const int32_t> tokens, std::span<double> losses);
  void count(std::span<const double> losses);

  const StreamParts& parts_;
  int64_t stream_;
  bool has_sane_, is_adaptive_;
  SequenceState state_;
  StreamPlace place_;
  corpus::TokenStream source_;
  TauRecord taus_;
  int64_t segment_tokens_ = 0;
  double segment_loss_ = 0;
  std::vector<double> segment_losses_;
};

}  // namespace deltasane
