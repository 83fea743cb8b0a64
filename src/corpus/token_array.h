// Token ids from a NumPy array of integers, over and over.
//
//   npy:PATH,piece=4096,padding=none,order=file,seed=1
//
// One dimension: pieces of this many tokens. Two: a row is a piece, without the tokens of the
// padding's id at its end. All of it is learned. order=shuffled gives another order each round.
#pragma once

#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_token_array(std::string_view rest);

}  // namespace deltasane::corpus
