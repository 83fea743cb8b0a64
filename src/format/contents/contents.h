// One pass over the bytes of a tensor file: the CRC-32 of what has a checksum, and numbers that are
// not finite. Each block is read from memory once and looked at for both while it is in the cache,
// on several threads where the file is large.
#pragma once

#include <vector>

#include "format/contents/finite.h"

namespace deltasane {

struct ContentsWanted {
  bool checksums, numbers;
};

struct ContentsFound {
  std::vector<uint32_t> checksums;  // of file.checksummed(), in its order
  std::vector<char> non_finite;     // whether a tensor has such a number, in file order
};

ContentsFound read_contents(const TensorFile& file, ContentsWanted wanted);

// Fails where a checksum is not the stated one; throws NonFiniteError where a number is not finite.
void check_contents(const TensorFile& file, Checksums checksums, NonFiniteWeights non_finite);

}  // namespace deltasane
