// Plain text from a file, or from every file of a folder.
//
//   text:PATH,piece=4096         in order, every byte, over and over
//   prose:PATH,seed=1,piece=2048 in pieces of about this many bytes, in another order each round
//
// A piece ends at the first end of a paragraph behind its share of the file, or of a line or a
// word where there is none. Where it begins and ends is a function of the bytes around, so nothing
// is kept but the mapped files.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

// The first good place to cut at or behind `share * number`, in front of the next share.
size_t cut_before_share(std::string_view text, size_t share, uint64_t number);

std::unique_ptr<Source> open_text(std::string_view rest);
std::unique_ptr<Source> open_prose(std::string_view rest);

}  // namespace deltasane::corpus
