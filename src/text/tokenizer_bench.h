// Encoding throughput of a tokenizer on one thread.
#pragma once

#include <string_view>

#include "text/tokenizer.h"

namespace deltasane {

struct EncodeRate {
  double megabytes_per_second;  // 1 MB is 1e6 bytes; the best pass
  double bytes_per_token;
  int passes;
};

// Encodes the whole text repeatedly for about this many seconds, at least three times.
EncodeRate measure_encode_rate(const Tokenizer& tokenizer, std::string_view text, double seconds);

}  // namespace deltasane
