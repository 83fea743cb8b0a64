#include "serve/keys.h"

#include <sys/random.h>
#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "base/hexadecimal.h"

namespace deltasane::serve {
namespace {

uint64_t random_word() {
  uint64_t word = 0;
  if (::getrandom(&word, sizeof word, 0) != ssize_t(sizeof word))
    fail(Fault::device, "random numbers of the system: expected 8 bytes, found fewer");
  return word;
}

}  // namespace

Keys::Keys() : secret_(random_word()) {}

Keys::Hash Keys::hash_of(std::string_view key) const {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(key.data(), key.size(), secret_);
  return {hash.low64, hash.high64};
}

void Keys::add(std::string_view key) {
  const bool is_printable =
      std::ranges::all_of(key, [](char c) { return c > ' ' && static_cast<unsigned char>(c) < 127; });
  if (key.size() < 8 || key.size() > 256 || !is_printable)
    fail(Fault::usage, "API key: expected 8 to 256 printable characters without spaces, found ",
         key.size(), is_printable ? " characters" : " with others among them");
  hashes_.push_back(hash_of(key));
  owners_.push_back(cat("key-", hexadecimal(XXH3_64bits(key.data(), key.size()))));
}

void Keys::add_file(const fs::path& path) {
  const std::string text = read_file(path);
  const size_t before = hashes_.size();
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (!line.empty() && line.front() != '#') add(line);
  }
  if (hashes_.size() == before) fail(Fault::file, path, ": expected an API key a line, found none");
}

std::optional<std::string> Keys::owner(std::string_view authorization) const {
  if (empty()) return std::string();
  constexpr std::string_view scheme = "Bearer ";
  const bool has_scheme = authorization.starts_with(scheme);
  const Hash wanted = hash_of(has_scheme ? authorization.substr(scheme.size()) : "");
  size_t found = hashes_.size();
  for (size_t i = 0; i < hashes_.size(); ++i) {
    const uint64_t different = (hashes_[i][0] ^ wanted[0]) | (hashes_[i][1] ^ wanted[1]);
    found = different == 0 ? i : found;
  }
  if (found == hashes_.size() || !has_scheme) return std::nullopt;
  return owners_[found];
}

std::string random_id(std::string_view prefix) {
  return cat(prefix, hexadecimal(random_word()), hexadecimal(random_word()));
}

}  // namespace deltasane::serve
