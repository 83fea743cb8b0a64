// Text to token ids and back.
//
// A tokenizer is immutable, so threads may share it. Text is bytes, valid UTF-8 or not. A tokenizer
// may normalize it (NFC); for all other texts decode(encode(text)) == text.
//
// Special tokens (<|im_end|>, <s>) steer a model and are no text: by default their names in a text
// are letters like any others, and they decode to nothing. A caller who wrote the text himself may
// have them recognized. An id that has no bytes (special, unused, out of range) decodes to nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

enum class SpecialTokens { as_text, recognized };

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view name() const = 0;
  // One more than the largest id. A model may have more embedding rows than that; the ids of the
  // rest have no bytes.
  virtual int32_t vocabulary_size() const = 0;
  virtual std::optional<int32_t> end_of_document() const = 0;  // between documents
  virtual std::string_view bytes_of(int32_t id) const = 0;
  virtual void append_encoded(std::string_view text, std::vector<int32_t>& ids) const = 0;

  // Tokens that a model expects in front of a text that begins a document.
  virtual std::span<const int32_t> document_start() const { return {}; }
  // Whether a model ends its text with this token.
  virtual bool ends_text(int32_t id) const { return id == end_of_document(); }
  virtual std::optional<int32_t> special_token(std::string_view) const { return std::nullopt; }
  virtual std::string_view special_name(int32_t) const { return {}; }  // empty: it is none
  virtual void append_with_special(std::string_view text, std::vector<int32_t>& ids) const {
    append_encoded(text, ids);
  }
  // The chat template that came with it, as its files have it; empty: none.
  virtual std::string_view chat_template() const { return {}; }
  // What a whole text has in front that encoding has put there.
  virtual std::string_view added_in_front() const { return {}; }

  std::vector<int32_t> encode(std::string_view text,
                              SpecialTokens special = SpecialTokens::as_text) const;
  // A text that begins a document: with what the model expects in front of it.
  std::vector<int32_t> encode_document(std::string_view text,
                                       SpecialTokens special = SpecialTokens::as_text) const;
  std::string decode(std::span<const int32_t> ids,
                     SpecialTokens special = SpecialTokens::as_text) const;
  uint64_t digest() const;  // changes with the name and every token's bytes
};

}  // namespace deltasane
