// The text file of an RWKV World vocabulary (rwkv_vocab_v20230424.txt).
//
//   id SP python-literal SP byte-length LF
//
// Ids count from 1 without gaps, so a token's id is its line number. Lines may end in CR LF, and
// the last line end is optional. Rejected, with the line: gaps, repeated ids, a length that is not
// that of the literal, repeated and empty tokens.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer.h"
#include "text/vocabulary/vocabulary.h"

namespace deltasane {

// `name` is for messages; no file is opened.
Vocabulary parse_world_file(std::string_view bytes, std::string_view name);

// Such a file for the tokens of a tokenizer from id 1 on.
std::string world_file_of(const Tokenizer& tokenizer);

}  // namespace deltasane
