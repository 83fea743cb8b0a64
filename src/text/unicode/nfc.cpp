#include "text/unicode/nfc.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "text/unicode/canonical_tables.h"
#include "text/utf8.h"

namespace deltasane::unicode {
namespace {

// Hangul syllables, by arithmetic (The Unicode Standard, 3.12).
namespace hangul {
constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, trails = 0x11A7;
constexpr char32_t lead_count = 19, vowel_count = 21, trail_count = 28;
constexpr char32_t syllable_count = lead_count * vowel_count * trail_count;

// Whether c is one of the `count` code points from `first` on.
constexpr bool within(char32_t c, char32_t first, char32_t count) { return c - first < count; }
constexpr bool second_of_pair(char32_t c) {
  return within(c, vowels, vowel_count) || within(c, trails + 1, trail_count - 1);
}
}  // namespace hangul

struct Tables {
  std::unordered_map<char32_t, uint8_t> combining;
  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> decomposition;  // second 0: none
  std::unordered_map<uint64_t, char32_t> composition;
  std::bitset<0x30000> unstable;  // may change, or change what stands before it

  static uint64_t pair(char32_t a, char32_t b) { return uint64_t{a} << 32 | b; }

  Tables() {
    for (const uint64_t run : combining_runs)
      for (uint64_t i = 0; i < (run >> 8 & 0xFF); ++i) {
        combining[char32_t((run >> 16) + i)] = uint8_t(run);
        unstable.set((run >> 16) + i);
      }
    for (const Composite& c : composites) {
      decomposition[c.whole] = {c.first, c.second};
      composition[pair(c.first, c.second)] = c.whole;
      unstable.set(c.second);
    }
    for (const Composite& c : split_only) {
      decomposition[c.whole] = {c.first, c.second};
      unstable.set(c.whole);
    }
    char32_t next = 0;
    for (const uint32_t value : singles) {
      if (value >> 24) {
        next = value & 0xFFFFFF;
      } else {
        decomposition[next] = {value, 0};
        unstable.set(next++);
      }
    }
  }

  uint8_t combining_class(char32_t c) const {
    const auto found = combining.find(c);
    return found == combining.end() ? uint8_t{0} : found->second;
  }
  // A text can be cut before a stable character, and both parts normalized by themselves.
  bool stable(char32_t c) const {
    return c < 0x300 || c >= unstable.size() || (!hangul::second_of_pair(c) && !unstable[c]);
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

void decompose(char32_t c, std::vector<char32_t>& out) {
  if (hangul::within(c, hangul::syllables, hangul::syllable_count)) {
    const char32_t index = c - hangul::syllables;
    out.push_back(hangul::leads + index / (hangul::vowel_count * hangul::trail_count));
    out.push_back(hangul::vowels + index / hangul::trail_count % hangul::vowel_count);
    if (index % hangul::trail_count) out.push_back(hangul::trails + index % hangul::trail_count);
    return;
  }
  const auto found = tables().decomposition.find(c);
  if (found == tables().decomposition.end()) return out.push_back(c);
  decompose(found->second.first, out);
  if (found->second.second) decompose(found->second.second, out);
}

// 0: the two do not compose.
char32_t composed(char32_t a, char32_t b) {
  using namespace hangul;
  if (within(a, leads, lead_count) && within(b, vowels, vowel_count))
    return syllables + ((a - leads) * vowel_count + (b - vowels)) * trail_count;
  if (within(a, syllables, syllable_count) && (a - syllables) % trail_count == 0 &&
      within(b, trails + 1, trail_count - 1))
    return a + (b - trails);
  const auto found = tables().composition.find(Tables::pair(a, b));
  return found == tables().composition.end() ? 0 : found->second;
}

// Marks between two starters, in the order of their classes.
void reorder(std::vector<char32_t>& text) {
  const auto by_class = [](char32_t a, char32_t b) {
    return tables().combining_class(a) < tables().combining_class(b);
  };
  for (auto begin = text.begin(); begin != text.end();) {
    auto end = begin;
    while (end != text.end() && tables().combining_class(*end) != 0) ++end;
    std::stable_sort(begin, end, by_class);
    begin = end == text.end() ? end : end + 1;
  }
}

void compose(std::vector<char32_t>& text) {
  size_t out = 0, starter = 0;
  bool has_starter = false;
  int before = -1;  // the class of the last character kept since the starter; -1: there is none
  for (size_t i = 0; i < text.size(); ++i) {
    const char32_t c = text[i];
    const int own = tables().combining_class(c);
    if (has_starter && before < own) {
      const char32_t whole = composed(text[starter], c);
      if (whole) {
        text[starter] = whole;
        continue;
      }
    }
    if (own == 0) {
      starter = out;
      has_starter = true;
      before = -1;
    } else {
      before = own;
    }
    text[out++] = c;
  }
  text.resize(out);
}

void append_normalized(std::vector<char32_t>& characters, std::string& out) {
  std::vector<char32_t> text;
  for (const char32_t c : characters) decompose(c, text);
  characters.clear();
  reorder(text);
  compose(text);
  for (const char32_t c : text) append_utf8(out, c);
}

}  // namespace

std::string nfc(std::string_view text) {
  // The first byte of U+0300 and of all characters above it. Below them nothing ever changes.
  const auto above = [](char c) { return uint8_t(c) >= 0xCC; };
  if (std::none_of(text.begin(), text.end(), above)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  std::vector<char32_t> open;  // from the last stable character on
  const auto close = [&] {
    if (open.size() == 1 && tables().stable(open[0])) {
      append_utf8(out, open[0]);
      open.clear();
    } else {
      append_normalized(open, out);
    }
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    const std::string_view bytes = text.substr(at, step.length);
    at += step.length;
    if (step.kind != Utf8Step::Kind::complete) {
      close();
      out += bytes;
      continue;
    }
    const char32_t c = decode_utf8(bytes);
    if (tables().stable(c)) close();
    open.push_back(c);
  }
  close();
  return out;
}

}  // namespace deltasane::unicode
