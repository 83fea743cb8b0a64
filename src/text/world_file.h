// The text file of an RWKV World vocabulary (rwkv_vocab_v20230424.txt).
//
//   id SP python-literal SP byte-length LF
//
// Ids count from 1 without holes, so a token's id is its line number. Lines may end in CR LF, and
// the last one may lack its end. Everything else is refused, with the line: a hole, an id given
// again, a length that is not that of the literal, a token given again, an empty token.
#pragma once

#include <string_view>

#include "text/vocabulary.h"

namespace deltasane {

// `name` stands for the bytes in messages; nothing is opened.
Vocabulary parse_world_file(std::string_view bytes, std::string_view name);

}  // namespace deltasane
