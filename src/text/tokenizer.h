// Text to token ids and back.
//
// A tokenizer is immutable, so threads may share it. Text is bytes: nothing is normalised, there
// are no special tokens in text, and decode(encode(text)) == text for every text. An id that has no
// bytes (end of document, unused, out of range) decodes to nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view name() const = 0;
  // One more than the largest id. A model may have more embedding rows than that; the ids of the
  // rest have no bytes.
  virtual int32_t vocabulary_size() const = 0;
  virtual std::optional<int32_t> end_of_document() const = 0;
  virtual std::string_view bytes_of(int32_t id) const = 0;
  virtual void append_encoded(std::string_view text, std::vector<int32_t>& ids) const = 0;

  std::vector<int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const int32_t> ids) const;
  uint64_t digest() const;  // changes with the name and every token's bytes
};

}  // namespace deltasane
