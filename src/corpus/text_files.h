// Plain text from a file, or from every file of a folder.
//
//   text:PATH,piece=4096           every byte in order, repeated forever
//   prose:PATH,seed=1,piece=2048   pieces of about this many bytes, reshuffled every epoch
//
// The nominal end of a piece moves to the next paragraph end, else line end, else word end. The
// boundaries are a function of the nearby bytes, so nothing is stored but the mapped files.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

// The boundary between pieces `number` - 1 and `number`: at or after `size * number`, and before
// `size * (number + 1)`.
size_t piece_boundary(std::string_view text, size_t size, uint64_t number);

std::unique_ptr<Source> open_text(std::string_view rest);
std::unique_ptr<Source> open_prose(std::string_view rest);

}  // namespace deltasane::corpus
