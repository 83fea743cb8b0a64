// How often a stream records its heads, and how large its records become.
//
// Losses and the norm of the whole state are recorded at every segment. Rows of heads are many, so they
// become rarer as a stream gets long: each segment up to 256, then 128 for each doubling of the length. A
// run can record them every so many tokens instead. A short segment at the end of a run, and the end of a
// stream that overflowed, are always recorded.
#pragma once

#include <cstdint>
#include <string>

namespace deltasane {

struct HeadRate {
  int64_t every = 0;  // tokens, a multiple of the segment; 0: rarer with the length

  bool due(int64_t position, int64_t segment) const;
  std::string description() const;
};

// Bytes of segments.rec, heads.rec and losses.rec after so many tokens of one stream, without their
// headers, which are a few hundred bytes each.
int64_t record_bytes(int64_t tokens, int64_t segment, HeadRate rate, int64_t heads);

}  // namespace deltasane
