// Token ids from a NumPy array of integers, repeated forever.
//
//   npy:PATH,piece=4096,padding=none,order=file,seed=1
//
// One dimension: pieces of this many tokens. Two: a row is a piece, without trailing padding
// tokens. All tokens are learned. order=shuffled reshuffles every epoch.
#pragma once

#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_token_array(std::string_view rest);

}  // namespace deltasane::corpus
