#include "text/bpe/bpe_tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/bpe/byte_letters.h"
#include "text/unicode/character_class.h"
#include "text/unicode/nfc.h"

namespace deltasane {
namespace {

// <0x0A>: the byte; -1: another token.
int byte_named(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    byte = byte * 16 + digit;
  }
  return byte;
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  if (what.empty()) return std::string(text);
  for (size_t at = 0; at < text.size();) {
    const size_t found = text.find(what, at);
    out += text.substr(at, found - at);
    if (found == text.npos) break;
    out += by;
    at = found + what.size();
  }
  return out;
}

// The last character of a text that is not empty, or its last byte if that ends none.
std::string_view last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (uint8_t(text[begin]) & 0xC0) == 0x80) --begin;
  const std::string_view last = text.substr(begin);
  return unicode::first_character(last).length == last.size() ? last : text.substr(text.size() - 1);
}

std::string_view first_character(std::string_view text) {
  return text.substr(0, unicode::first_character(text).length);
}

}  // namespace

struct BpeTokenizer::Work {
  std::vector<int32_t>& ids;
  std::vector<int32_t> symbols{};
  MergeTable::Scratch scratch{};
};

template <class... Part>
void BpeTokenizer::reject(const Part&... part) const {
  fail(Fault::file, own_.source, ": ", part...);
}

BpeTokenizer::BpeTokenizer(BpeDefinition definition) : own_(std::move(definition)) {
  read_tokens();
  read_added();
  read_merges();
  find_whole_pieces();
  for (const int32_t id : own_.ends_text)
    if (id < 0 || id >= vocabulary_size())
      reject("end of text: expected an id below ", vocabulary_size(), ", found ", id);
  for (const int32_t id : own_.start)
    if (id < 0 || id >= vocabulary_size())
      reject("start of a document: expected an id below ", vocabulary_size(), ", found ", id);
}

std::string_view BpeTokenizer::name() const { return of_bytes() ? "bpe" : "llama-bpe"; }

int32_t BpeTokenizer::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

// Tokens that merges cannot make (written in other characters than bytes are written in) are
// kept as text alone.
void BpeTokenizer::read_tokens() {
  size_t size = own_.tokens.size(), total = 0;
  for (const AddedToken& token : own_.added) {
    if (token.id < 0 || size_t(token.id) >= max_tokens)
      reject("added token ", printable(token.content), ": expected an id below ", max_tokens,
             ", found ", token.id);
    size = std::max(size, size_t(token.id) + 1);
  }
  if (size > max_tokens) reject("expected at most ", max_tokens, " tokens, found ", size);
  tokens_.resize(size);
  bytes_.resize(size);
  byte_ids_.fill(-1);
  for (size_t id = 0; id < own_.tokens.size(); ++id) {
    std::string& token = own_.tokens[id];
    total += token.size();
    if (token.size() > max_token_bytes || total > max_total_bytes)
      reject("token ", id, ": expected at most ", max_token_bytes, " bytes, and ",
             max_total_bytes, " in all, found ", token.size(), " and ", total);
    if (of_bytes()) {
      const auto bytes = bytes_of_letters(token);
      bytes_[id] = bytes.value_or(token);
      if (bytes) tokens_[id] = *bytes;
    } else if (const int byte = byte_named(token); byte >= 0) {
      bytes_[id] = char(byte);
      byte_ids_[size_t(byte)] = int32_t(id);
    } else {
      bytes_[id] = replaced(token, own_.space_letter, " ");
      tokens_[id] = std::move(token);
    }
  }
  own_.tokens = {};
}

void BpeTokenizer::read_added() {
  std::unordered_map<std::string_view, int32_t> by_content;
  std::vector<AddedToken> kinds[2][2];  // special, normalized
  for (const AddedToken& token : own_.added) {
    if (token.content.empty() || token.content.size() > max_token_bytes)
      reject("added token ", token.id, ": expected 1 to ", max_token_bytes, " bytes, found ",
             token.content.size());
    if (!by_content.emplace(token.content, token.id).second)
      reject("added token ", printable(token.content), ": expected it once, found it twice");
    const auto id = size_t(token.id);
    if (!bytes_[id].empty() && bytes_[id] != token.content && tokens_[id] != token.content)
      reject("added token ", printable(token.content), ": expected an id of its own, found ", id,
             ", which is ", printable(bytes_[id]));
    tokens_[id].clear();
    bytes_[id] = token.special ? "" : token.content;
    if (token.special) {
      special_ids_[token.content] = token.id;
      if (!special_names_.emplace(token.id, token.content).second)
        reject("added token ", printable(token.content), ": expected an id of its own, found ", id,
               ", which is ", printable(special_names_[token.id]));
    }
    AddedToken wanted = token;
    if (token.normalized) wanted.content = normalized(token.content);
    kinds[token.special][token.normalized].push_back(std::move(wanted));
  }
  text_tokens_ = {AddedTokens(kinds[0][0]), AddedTokens(kinds[0][1])};
  for (const int normalized : {0, 1})
    kinds[0][normalized].insert(kinds[0][normalized].end(), kinds[1][normalized].begin(),
                                kinds[1][normalized].end());
  all_tokens_ = {AddedTokens(kinds[0][0]), AddedTokens(kinds[0][1])};
  own_.added = {};

  ids_.reserve(tokens_.size());
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty()) continue;
    if (const auto [known, fresh] = ids_.emplace(tokens_[id], int32_t(id)); !fresh)
      reject("token ", printable(tokens_[id]), ": expected it once, found it as ", known->second,
             " and ", id);
    if (of_bytes() && tokens_[id].size() == 1) byte_ids_[uint8_t(tokens_[id][0])] = int32_t(id);
  }
  for (size_t byte = 0; byte < 256; ++byte)
    if (byte_ids_[byte] < 0)
      reject("expected a token for every byte, found none for byte ", byte);
}

void BpeTokenizer::read_merges() {
  if (!own_.ranks.empty() && own_.ranks.size() != own_.merges.size())
    reject("expected a rank for each of ", own_.merges.size(), " merges, found ",
           own_.ranks.size());
  merges_.reserve(own_.merges.size());
  const auto part = [&](const std::string& written, size_t rank) {
    const auto bytes = of_bytes() ? bytes_of_letters(written) : written;
    const int32_t id = bytes ? id_of(*bytes) : -1;
    if (id < 0)
      reject("merge ", rank, ": expected tokens of the vocabulary, found ", printable(written));
    return id;
  };
  for (size_t rank = 0; rank < own_.merges.size(); ++rank) {
    const auto& [left, right] = own_.merges[rank];
    MergeTable::Merge merge{part(left, rank), part(right, rank), -1, -1, -1};
    const std::string &a = tokens_[size_t(merge.left)], &b = tokens_[size_t(merge.right)];
    merge.whole = id_of(a + b);
    if (merge.whole < 0)
      reject("merge ", rank, ": expected a token ", printable(left + right), ", found none");
    merge.left_end = of_bytes() ? byte_ids_[uint8_t(a.back())] : id_of(last_character(a));
    merge.right_begin = of_bytes() ? byte_ids_[uint8_t(b[0])] : id_of(first_character(b));
    if (!merges_.add(merge, own_.ranks.empty() ? uint32_t(rank) : own_.ranks[rank]))
      reject("merge ", rank, " (", printable(left), " ", printable(right),
             "): expected it once, found it twice");
  }
  own_.merges = {};
}

// Most pieces of a text are tokens. Where the merges make a piece one token again, one look into
// the vocabulary is enough.
void BpeTokenizer::find_whole_pieces() {
  whole_.assign(tokens_.size(), own_.ignore_merges);
  if (own_.ignore_merges || own_.pretokenizer.kind == Pretokenizer::Kind::none) return;
  std::vector<int32_t> ids;
  Work work{ids};
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty()) continue;
    ids.clear();
    encode_piece(tokens_[id], work);
    whole_[id] = ids.size() == 1 && ids[0] == int32_t(id);
  }
}

std::string_view BpeTokenizer::bytes_of(int32_t id) const {
  return id < 0 || id >= vocabulary_size() ? std::string_view() : bytes_[size_t(id)];
}

bool BpeTokenizer::ends_text(int32_t id) const {
  return id == own_.end_of_document ||
         std::find(own_.ends_text.begin(), own_.ends_text.end(), id) != own_.ends_text.end();
}

std::optional<int32_t> BpeTokenizer::special_token(std::string_view name) const {
  const auto found = special_ids_.find(std::string(name));
  if (found == special_ids_.end()) return std::nullopt;
  return found->second;
}

std::string_view BpeTokenizer::special_name(int32_t id) const {
  const auto found = special_names_.find(id);
  return found == special_names_.end() ? std::string_view() : found->second;
}

void BpeTokenizer::append_encoded(std::string_view text, std::vector<int32_t>& ids) const {
  encode(text_tokens_, text, ids);
}

void BpeTokenizer::append_with_special(std::string_view text, std::vector<int32_t>& ids) const {
  encode(all_tokens_, text, ids);
}

void BpeTokenizer::encode(const Search& added, std::string_view text,
                          std::vector<int32_t>& ids) const {
  Work work{ids};
  const auto each = [&](const AddedTokens& tokens, std::string_view in, const auto& rest) {
    for (size_t at = 0; at < in.size();) {
      const AddedTokens::Match match = tokens.next(in, at);
      if (match.begin > at) rest(in.substr(at, match.begin - at), at == 0);
      if (match.token) ids.push_back(match.token->id);
      at = match.end;
    }
  };
  each(added.raw, text, [&](std::string_view part, bool at_front) {
    const std::string clean = own_.normalizers.empty() ? std::string() : normalized(part);
    each(added.normalized, own_.normalizers.empty() ? part : clean,
         [&](std::string_view piece, bool first) { encode_pieces(piece, at_front && first, work); });
  });
}

std::string BpeTokenizer::normalized(std::string_view text) const {
  std::string out(text);
  for (const BpeDefinition::Normalizer& step : own_.normalizers) {
    if (step.kind == BpeDefinition::Normalizer::Kind::nfc)
      out = unicode::nfc(out);
    else if (step.kind == BpeDefinition::Normalizer::Kind::prepend)
      out = out.empty() ? out : step.text + out;
    else
      out = replaced(out, step.text, step.content);
  }
  return out;
}

void BpeTokenizer::encode_pieces(std::string_view text, bool at_front, Work& work) const {
  using Prepend = BpeDefinition::Metaspace::Prepend;
  std::string changed;
  size_t least = 0;  // where the next piece of Metaspace may begin
  if (own_.metaspace) {
    const auto& [replacement, prepend, split] = *own_.metaspace;
    changed = replaced(text, " ", replacement);
    const bool wanted = prepend == Prepend::always || (prepend == Prepend::first && at_front);
    if (wanted && !changed.starts_with(replacement)) changed = replacement + changed;
    text = changed;
    least = split ? 1 : text.size();
  } else if (own_.space_in_front && !text.starts_with(' ')) {
    changed = cat(" ", text);
    text = changed;
  }
  while (!text.empty()) {
    size_t size = 0;
    if (own_.metaspace)
      size = std::min(text.find(own_.metaspace->replacement, std::min(least, text.size())),
                      text.size());
    else
      size = own_.pretokenizer.first_piece(text);
    encode_piece(text.substr(0, size), work);
    text.remove_prefix(size);
  }
}

void BpeTokenizer::encode_piece(std::string_view piece, Work& work) const {
  if (const int32_t id = id_of(piece); id >= 0 && whole_[size_t(id)]) return work.ids.push_back(id);
  work.symbols.clear();
  append_symbols(piece, work.symbols);
  merges_.append_joined(work.symbols, work.scratch, work.ids);
}

void BpeTokenizer::append_symbols(std::string_view piece, std::vector<int32_t>& symbols) const {
  while (!piece.empty()) {
    const std::string_view first = of_bytes() ? piece.substr(0, 1) : first_character(piece);
    const int32_t id = of_bytes() ? byte_ids_[uint8_t(first[0])] : id_of(first);
    if (id >= 0)
      symbols.push_back(id);
    else
      for (const char byte : first) symbols.push_back(byte_ids_[uint8_t(byte)]);
    piece.remove_prefix(first.size());
  }
}

}  // namespace deltasane
