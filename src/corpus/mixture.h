// A mixture of sources in given shares.
//
//   mixed:0.7*(math-chat:seed=1)+0.3*(prose:book.txt),seed=1,by=bytes
//
// Shares are relative to their sum. The source of a piece is given by a pattern of 65,536 slots,
// shuffled once by the seed and repeated; each source's pieces come in its own order. by=bytes (a
// token counts as four): the slots of a source are proportional to its share divided by the mean
// length of its first 256 pieces; by=pieces: proportional to its share.
#pragma once

#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_mixture(std::string_view rest, const OpeningProgress& progress);

}  // namespace deltasane::corpus
