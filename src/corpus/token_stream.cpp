#include <algorithm>

#include "base/error.h"
#include "corpus/source.h"

namespace deltasane::corpus {
namespace {

constexpr uint64_t max_empty_pieces = 1'000'000;

void check_ids(const std::vector<int32_t>& ids, const Tokenizer& tokenizer, const Source& source) {
  for (const int32_t id : ids)
    if (id < 0 || id >= tokenizer.vocabulary_size())
      fail(Fault::file, source.description(), ": expected ids below ", tokenizer.vocabulary_size(),
           " (tokenizer ", tokenizer.name(), "), found ", id);
}

// The loss mask: 1 for each token whose first byte is learned, or which itself is, in token pieces.
void mark_learned(const Piece& piece, const std::vector<int32_t>& ids, const Tokenizer& tokenizer,
                  std::vector<uint8_t>& learned) {
  learned.assign(ids.size(), 0);
  const std::string_view in_front = piece.text.empty() ? "" : tokenizer.added_in_front();
  const bool one_byte_each =
      piece.text.empty() || (ids.size() == piece.text.size() && in_front.empty());
  if (one_byte_each) {
    for (const Span& span : piece.learned)
      std::fill(learned.begin() + ptrdiff_t(span.begin), learned.begin() + ptrdiff_t(span.end),
                uint8_t{1});
    return;
  }
  size_t next = 0;  // in the text with what encoding put in front of it
  auto span = piece.learned.begin();
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t byte = next - std::min(next, in_front.size());
    while (span != piece.learned.end() && span->end <= byte) ++span;
    learned[i] = span != piece.learned.end() && span->begin <= byte;
    next += tokenizer.bytes_of(ids[i]).size();
  }
}

}  // namespace

TokenStream::TokenStream(const Source& source, const Tokenizer& tokenizer, Cursor from)
    : source_(source), tokenizer_(tokenizer), cursor_(from) {
  if (cursor_.token == 0) return;
  refill();
  if (cursor_.token > tokens_.size())
    fail(Fault::argument, source.description(), ": piece ", cursor_.piece, " has ", tokens_.size(),
         " tokens; expected a cursor inside it, found one after ", cursor_.token);
}

void TokenStream::refill() {
  Piece piece = source_.piece(cursor_.piece);
  tokens_.clear();
  if (!piece.tokens.empty()) {
    tokens_ = std::move(piece.tokens);
    check_ids(tokens_, tokenizer_, source_);
  } else {
    tokenizer_.append_encoded(piece.text, tokens_);
  }
  mark_learned(piece, tokens_, tokenizer_, learned_);
}

void TokenStream::read(std::span<int32_t> tokens, std::span<uint8_t> learned) {
  require(learned.empty() || learned.size() == tokens.size(),
          "the mask has one entry per token, or none");
  size_t done = 0;
  for (uint64_t empty = 0; done < tokens.size();) {
    if (tokens_.empty()) refill();
    const size_t from = size_t(cursor_.token);
    const size_t count = std::min(tokens.size() - done, tokens_.size() - from);
    std::copy_n(tokens_.begin() + ptrdiff_t(from), count, tokens.begin() + ptrdiff_t(done));
    if (!learned.empty())
      std::copy_n(learned_.begin() + ptrdiff_t(from), count, learned.begin() + ptrdiff_t(done));
    done += count;
    cursor_.token += count;
    empty = count == 0 ? empty + 1 : 0;
    if (empty > max_empty_pieces)
      fail(Fault::file, source_.description(), ": expected text, found ", empty,
           " empty pieces in a row");
    if (cursor_.token == tokens_.size()) {
      cursor_ = {cursor_.piece + 1, 0};
      tokens_.clear();
    }
  }
}

}  // namespace deltasane::corpus
