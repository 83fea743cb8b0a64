// The tokenizer without a vocabulary file: an id is a byte, 0 .. 255.
#pragma once

#include <cstdint>

#include "text/tokenizer.h"

namespace deltasane {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "byte"; }
  int32_t vocabulary_size() const override { return 256; }
  std::optional<int32_t> end_of_document() const override { return std::nullopt; }
  std::string_view bytes_of(int32_t id) const override;
  void append_encoded(std::string_view text, std::vector<int32_t>& ids) const override;
};

}  // namespace deltasane
