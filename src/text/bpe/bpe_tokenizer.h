// Byte-pair encoding, as Hugging Face's tokenizers define it.
//
//   1. Added tokens are cut out of the text, then the rest is normalized, and added tokens that
//      are looked for in normalized text are cut out of it.
//   2. What remains is cut into pieces (pretokenizer.h).
//   3. A piece becomes bytes, or characters, and these are joined by the merges (merge_table.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe/added_tokens.h"
#include "text/bpe/definition.h"
#include "text/bpe/merge_table.h"
#include "text/tokenizer.h"

namespace deltasane {

class BpeTokenizer final : public Tokenizer {
 public:
  using Tokenizer::encode;

  // Limits for untrusted input.
  static constexpr size_t max_tokens = size_t{1} << 20;
  static constexpr size_t max_token_bytes = 4096;
  static constexpr size_t max_total_bytes = size_t{64} << 20;

  // Fails with Fault::file if the definition is not of a tokenizer that can encode every text.
  explicit BpeTokenizer(BpeDefinition definition);
  BpeTokenizer(BpeTokenizer&&) = default;

  std::string_view name() const override;
  int32_t vocabulary_size() const override { return int32_t(bytes_.size()); }
  std::optional<int32_t> end_of_document() const override { return own_.end_of_document; }
  std::string_view bytes_of(int32_t id) const override;
  void append_encoded(std::string_view text, std::vector<int32_t>& ids) const override;
  std::span<const int32_t> document_start() const override { return own_.start; }
  bool ends_text(int32_t id) const override;
  std::optional<int32_t> special_token(std::string_view name) const override;
  std::string_view special_name(int32_t id) const override;
  void append_with_special(std::string_view text, std::vector<int32_t>& ids) const override;
  std::string_view chat_template() const override { return own_.chat_template; }
  std::string_view added_in_front() const override { return own_.strip_front ? " " : ""; }

 private:
  struct Work;  // of one call: scratch memory, and where the ids go

  void read_tokens();
  void read_added();
  void read_merges();
  void find_whole_pieces();
  template <class... Part>
  [[noreturn]] void reject(const Part&... part) const;
  int32_t id_of(std::string_view token) const;  // -1: none

  struct Search {
    AddedTokens raw, normalized;
  };
  void encode(const Search& added, std::string_view text, std::vector<int32_t>& ids) const;
  std::string normalized(std::string_view text) const;
  void encode_pieces(std::string_view text, bool at_front, Work& work) const;
  void encode_piece(std::string_view piece, Work& work) const;
  void append_symbols(std::string_view piece, std::vector<int32_t>& symbols) const;
  bool of_bytes() const { return own_.alphabet == BpeDefinition::Alphabet::bytes; }

  BpeDefinition own_;               // its tokens and merges are moved out
  std::vector<std::string> tokens_;  // by id: what merges make, in bytes; empty: nothing does
  std::vector<std::string> bytes_;   // by id: as text
  std::unordered_map<std::string_view, int32_t> ids_;    // of tokens_
  std::unordered_map<std::string, int32_t> special_ids_;
  std::unordered_map<int32_t, std::string> special_names_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<bool> whole_;  // by id: a piece that is this token becomes this token alone
  MergeTable merges_;
  Search text_tokens_, all_tokens_;  // without special tokens, and with them
};

}  // namespace deltasane
