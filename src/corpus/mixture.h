// Several sources in given shares.
//
//   mixed:0.7*(math-chat:seed=1)+0.3*(prose:book.txt),seed=1,by=bytes
//
// Shares are relative to their sum. Which source a piece comes from is a fixed pattern of 65,536
// places, shuffled once by the seed and repeated; each source's pieces come in its own order. By
// bytes (a token counts as four), a source's places are its share divided by the mean length of
// its first 256 pieces; by pieces, its share alone.
#pragma once

#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_mixture(std::string_view rest);

}  // namespace deltasane::corpus
