// What a file says about a byte-pair-encoding tokenizer, before it is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/bpe/pretokenizer.h"

namespace deltasane {

// A token that is cut out of the text before all else.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool special = false;     // steers the model, and is no text
  bool normalized = false;  // looked for after normalization
  bool lstrip = false;      // takes white space before it along
  bool rstrip = false;      // and after it
};

struct BpeDefinition {
  std::string source;  // the file, for messages

  // How tokens are written and what merges begin with. `bytes`: GPT-2's printable letters, one per
  // byte. `characters`: characters; those without a token of their own as <0xNN>, byte by byte.
  enum class Alphabet { bytes, characters } alphabet = Alphabet::bytes;
  std::vector<std::string> tokens;  // by id; empty: there is none
  std::vector<std::pair<std::string, std::string>> merges;
  std::vector<uint32_t> ranks;  // of the merges; equal ones join from the left; empty: their order
  bool ignore_merges = false;  // a whole piece that is a token is not taken apart
  std::vector<AddedToken> added;

  // Applied in this order.
  struct Normalizer {
    enum class Kind { nfc, prepend, replace } kind;
    std::string text;     // what to prepend or to replace
    std::string content;  // replace: by what
  };
  std::vector<Normalizer> normalizers;

  // Writes spaces as another character, and puts one in front where the text has none: of every
  // piece between added tokens, of the first, or of none.
  struct Metaspace {
    enum class Prepend { always, first, never };
    std::string replacement;
    Prepend prepend = Prepend::always;
    bool split = false;  // pieces begin at the replacement
  };
  std::optional<Metaspace> metaspace;
  bool space_in_front = false;  // ByteLevel's add_prefix_space
  Pretokenizer pretokenizer;

  std::string space_letter;       // characters: written for a space
  bool strip_front = false;       // decoding a whole text drops a space at its beginning
  std::vector<int32_t> start;     // in front of a document
  std::optional<int32_t> end_of_document;
  std::vector<int32_t> ends_text;
  std::string chat_template;
};

}  // namespace deltasane
