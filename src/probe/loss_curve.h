// The losses of a stream's tokens as curves with few points: for each of many stretches of the stream
// the range of a quantity, so that spikes of single tokens remain.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/record_file.h"

namespace deltasane::probe {

inline constexpr int64_t local_tokens =
    50;  // of a local loss: the mean of a token's and those before

// Losses in nats.
struct LossRange {
  int64_t position = 0;                  // tokens read at the end of the stretch
  double token_low = 0, token_high = 0;  // of single tokens
  // Of means over local_tokens; NaN in a stretch that ends before there are so many.
  double local_low = 0, local_high = 0;
  double cumulative = 0;  // the mean of all tokens up to the end of the stretch
};

struct LossCurve {
  int64_t tokens = 0;
  std::vector<LossRange> ranges;
  // Of local perplexities (exponentials of local losses) over all tokens that have one.
  double local_mean = 0, local_deviation = 0;
};

// At most `most` stretches of equal length, of one stream in a table of losses.
LossCurve loss_curve(const RecordTable& losses, int64_t stream, int64_t most);

}  // namespace deltasane::probe
