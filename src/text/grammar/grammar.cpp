#include "text/grammar/grammar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace deltasane {
namespace {

using Element = Grammar::Element;
using Sequence = Grammar::Sequence;
using Alternatives = std::vector<Sequence>;
struct CharacterRange {
  char32_t low, high;
};

constexpr char32_t largest_character = 0x10FFFF;

bool is_name_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_';
}

Element one_of(int low, int high) {
  Element element;
  for (int byte = low; byte <= high; ++byte) element.bytes.set(size_t(byte));
  return element;
}

// The byte sequences of a range of characters whose encodings have one length.
void append_ranges(const std::string& low, const std::string& high, size_t at, Sequence& before,
                   Alternatives& all) {
  const auto byte = [&](const std::string& text) { return int(static_cast<unsigned char>(text[at])); };
  if (at + 1 == low.size()) {
    before.push_back(one_of(byte(low), byte(high)));
    all.push_back(before);
    before.pop_back();
    return;
  }
  std::string low_end = low, high_begin = high;
  for (size_t i = at + 1; i < low.size(); ++i) low_end[i] = '\xbf', high_begin[i] = '\x80';
  const auto descend = [&](int first, int last, const std::string& from, const std::string& to) {
    before.push_back(one_of(first, last));
    append_ranges(from, to, at + 1, before, all);
    before.pop_back();
  };
  if (byte(low) == byte(high)) return descend(byte(low), byte(high), low, high);
  const bool low_whole = low.substr(at + 1) == std::string(low.size() - at - 1, '\x80');
  const bool high_whole = high.substr(at + 1) == std::string(high.size() - at - 1, '\xbf');
  int first = byte(low), last = byte(high);
  if (!low_whole) descend(first, first, low, low_end), ++first;
  if (!high_whole) --last;
  if (first <= last) descend(first, last, high_begin, low_end);
  if (!high_whole) descend(byte(high), byte(high), high_begin, high);
}

Alternatives sequences_of(std::vector<CharacterRange> ranges) {
  Alternatives all;
  Element ascii;
  // Ends of the lengths of encodings; surrogates have none.
  constexpr std::array<CharacterRange, 5> lengths{{
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, largest_character}}};
  for (const CharacterRange& range : ranges)
    for (const CharacterRange& length : lengths) {
      const char32_t low = std::max(range.low, length.low), high = std::min(range.high, length.high);
      if (low > high) continue;
      if (high <= 0x7F) {
        ascii.bytes |= one_of(int(low), int(high)).bytes;
        continue;
      }
      std::string from, to;
      append_utf8(from, low);
      append_utf8(to, high);
      Sequence before;
      append_ranges(from, to, 0, before, all);
    }
  if (ascii.bytes.any()) all.push_back({ascii});
  return all;
}

class Parser {
 public:
  Parser(std::string_view text, const GrammarLimits& limits) : text_(text), limits_(limits) {
    if (text.size() > limits.text)
      fail(Fault::usage, "grammar: expected at most ", limits.text, " bytes, found ", text.size());
    if (!valid_utf8(text)) fail(Fault::usage, "grammar: expected UTF-8, found other bytes");
  }

  Grammar parse() {
    for (skip(true); at_ < text_.size(); skip(true)) {
      const std::string name = read_name();
      skip(false);
      if (!take("::=")) refuse("'::=' after the name of a rule");
      const int32_t rule = rule_named(name);
      if (!grammar_.rules[size_t(rule)].alternatives.empty()) refuse("each rule once");
      skip(true);
      Alternatives alternatives = read_alternatives(0);
      grammar_.rules[size_t(rule)].alternatives = std::move(alternatives);
    }
    for (const Grammar::Rule& rule : grammar_.rules)
      if (rule.alternatives.empty())
        fail(Fault::usage, "grammar: rule ", printable(rule.name), ": expected its definition, found none");
    const auto root = names_.find("root");
    if (root == names_.end()) fail(Fault::usage, "grammar: expected a rule named root, found none");
    grammar_.root = root->second;
    refuse_left_recursion();
    return std::move(grammar_);
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    fail(Fault::usage, "grammar: line ", line, ": expected ", expected, ", found ",
         at_ < text_.size() ? printable(text_.substr(at_, 16)) : "the end");
  }

  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  // Blanks and comments; `lines`: ends of lines, too.
  void skip(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#')
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      else if (c != ' ' && c != '\t' && !(lines && (c == '\n' || c == '\r')))
        return;
    }
  }

  std::string read_name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    if (at_ == begin) refuse("the name of a rule");
    return std::string(text_.substr(begin, at_ - begin));
  }

  int32_t rule_named(const std::string& name) {
    const auto [found, is_added] = names_.emplace(name, int32_t(grammar_.rules.size()));
    if (is_added) grammar_.rules.push_back({name, {}});
    return found->second;
  }

  Element rule_of(Alternatives alternatives) {
    for (const Sequence& one : alternatives) count(one.size() + 1);
    grammar_.rules.push_back({"", std::move(alternatives)});
    Element element;
    element.rule = int32_t(grammar_.rules.size() - 1);
    return element;
  }

  void count(size_t elements) {
    elements_ += elements;
    if (elements_ > limits_.elements)
      fail(Fault::usage, "grammar: expected at most ", limits_.elements,
           " elements with repetitions written out, found more");
  }

  Alternatives read_alternatives(size_t depth) {
    if (depth > limits_.nesting) refuse("groups that are nested less deeply");
    Alternatives all;
    for (;;) {
      all.push_back(read_sequence(depth));
      if (all.back().empty()) refuse("something to match; \"\" is the empty text");
      count(all.back().size() + 1);
      // A line that begins with '|' continues the rule.
      const size_t before = at_;
      skip(true);
      if (take("|")) {
        skip(true);
        continue;
      }
      if (depth == 0) at_ = before;
      return all;
    }
  }

  Sequence read_sequence(size_t depth) {
    Sequence sequence;
    for (;; skip(depth > 0)) {
      if (at_ == text_.size()) return sequence;
      const char c = text_[at_];
      const size_t begin = sequence.size();
      if (c == '"') {
        read_literal(sequence);
      } else if (c == '[') {
        sequence.push_back(rule_of_ranges(read_class()));
      } else if (c == '.') {
        ++at_;
        sequence.push_back(rule_of_ranges({{0, largest_character}}));
      } else if (c == '(') {
        ++at_;
        skip(true);
        Alternatives inner = read_alternatives(depth + 1);
        if (!take(")")) refuse("')'");
        sequence.push_back(rule_of(std::move(inner)));
      } else if (is_name_character(c)) {
        const size_t name_begin = at_;
        const std::string name = read_name();
        const size_t end = at_;
        skip(false);
        if (text_.substr(at_).starts_with("::=")) {  // the next rule, after a line's end
          at_ = name_begin;
          return sequence;
        }
        at_ = end;
        Element element;
        element.rule = rule_named(name);
        sequence.push_back(element);
      } else {
        return sequence;
      }
      repeat(sequence, begin);
    }
  }

  Element rule_of_ranges(std::vector<CharacterRange> ranges) {
    Alternatives all = sequences_of(std::move(ranges));
    if (all.empty()) refuse("a class with a character in it");
    if (all.size() == 1 && all[0].size() == 1) return all[0][0];
    return rule_of(std::move(all));
  }

  char32_t read_character(std::string_view special) {
    if (at_ == text_.size() || text_[at_] == '\n') refuse("the end of a text or class");
    if (text_[at_] != '\\') {
      const Utf8Step step = utf8_step(text_.substr(at_));
      const char32_t found = decode_utf8(text_.substr(at_, step.length));
      at_ += step.length;
      return found;
    }
    ++at_;
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'x':
        return read_digits(2);
      case 'u':
        return read_digits(4);
      case 'U':
        return read_digits(8);
      default:
        if (c == '\\' || (c != '\0' && special.find(c) != special.npos)) return char32_t(c);
        refuse("an escape: \\n, \\t, \\r, \\\\, \\xHH, \\uHHHH or \\UHHHHHHHH");
    }
  }

  char32_t read_digits(size_t length) {
    uint32_t value = 0;
    const char* const begin = text_.data() + at_;
    if (at_ + length > text_.size() ||
        std::from_chars(begin, begin + length, value, 16).ptr != begin + length ||
        !unicode_scalar(value))
      refuse("hexadecimal digits of a character");
    at_ += length;
    return value;
  }

  void read_literal(Sequence& sequence) {
    ++at_;
    Sequence bytes;
    while (!take("\"")) {
      std::string character;
      append_utf8(character, read_character("\"[]"));
      for (const char byte : character) {
        const int value = static_cast<unsigned char>(byte);
        bytes.push_back(one_of(value, value));
      }
    }
    // What is repeated is the whole text.
    if (bytes.size() == 1)
      sequence.push_back(bytes[0]);
    else
      sequence.push_back(rule_of({std::move(bytes)}));
  }

  std::vector<CharacterRange> read_class() {
    ++at_;
    const bool is_negated = take("^");
    std::vector<CharacterRange> ranges;
    while (!take("]")) {
      const char32_t low = read_character("]-^[\"");
      char32_t high = low;
      if (text_.substr(at_).starts_with("-") && !text_.substr(at_).starts_with("-]")) {
        ++at_;
        high = read_character("]-^[\"");
      }
      if (high < low) refuse("a range that ascends");
      ranges.push_back({low, high});
    }
    if (!is_negated) return ranges;
    std::ranges::sort(ranges, {}, &CharacterRange::low);
    std::vector<CharacterRange> others;
    char32_t next = 0;
    for (const CharacterRange& range : ranges) {
      if (range.low > next) others.push_back({next, range.low - 1});
      next = std::max(next, char32_t(range.high + 1));
    }
    if (next <= largest_character) others.push_back({next, largest_character});
    return others;
  }

  void repeat(Sequence& sequence, size_t begin) {
    if (at_ == text_.size()) return;
    int64_t least = 0, most = -1;  // -1: any number
    if (take("*")) {
    } else if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (take("{")) {
      least = most = read_number();
      if (take(",")) most = text_.substr(at_).starts_with("}") ? -1 : read_number();
      if (!take("}") || (most >= 0 && most < least)) refuse("{n}, {n,} or {m,n} with m <= n");
    } else {
      return;
    }
    const Element one = sequence[begin];
    sequence.resize(begin);
    count(size_t(std::max(least, most)) * 3 + 3);
    for (int64_t i = 0; i < least; ++i) sequence.push_back(one);
    if (most < 0) {
      Element again = rule_of({{}, {one}});
      grammar_.rules[size_t(again.rule)].alternatives[1].push_back(again);
      sequence.push_back(again);
      return;
    }
    Element rest;
    for (int64_t i = least; i < most; ++i)
      rest = i == least ? rule_of({{}, {one}}) : rule_of({{}, {one, rest}});
    if (most > least) sequence.push_back(rest);
  }

  int64_t read_number() {
    int64_t value = 0;
    const char *const begin = text_.data() + at_, *const end = text_.data() + text_.size();
    const auto found = std::from_chars(begin, end, value);
    if (found.ec != std::errc() || value < 0 || value > limits_.repetitions)
      refuse(cat("a number from 0 to ", limits_.repetitions));
    at_ += size_t(found.ptr - begin);
    return value;
  }

  // A rule that can begin with itself would be expanded for ever.
  void refuse_left_recursion() const {
    const size_t count = grammar_.rules.size();
    std::vector<bool> is_empty(count, false);
    const auto can_be_empty = [&](const Sequence& sequence) {
      return std::ranges::all_of(sequence, [&](const Element& element) {
        return element.rule >= 0 && is_empty[size_t(element.rule)];
      });
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < count; ++i)
        if (!is_empty[i] && std::ranges::any_of(grammar_.rules[i].alternatives, can_be_empty))
          changed = is_empty[i] = true;
    }
    std::vector<std::vector<int32_t>> begins(count);
    for (size_t i = 0; i < count; ++i)
      for (const Sequence& sequence : grammar_.rules[i].alternatives)
        for (const Element& element : sequence) {
          if (element.rule < 0) break;
          begins[i].push_back(element.rule);
          if (!is_empty[size_t(element.rule)]) break;
        }
    // Depth first, with a stack of our own: 1 on the path, 2 done.
    std::vector<char> mark(count, 0);
    for (size_t start = 0; start < count; ++start) {
      std::vector<std::pair<size_t, size_t>> path{{start, 0}};
      if (mark[start] == 0) mark[start] = 1;
      else continue;
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        if (next == begins[rule].size()) {
          mark[rule] = 2;
          path.pop_back();
          continue;
        }
        const auto to = size_t(begins[rule][next++]);
        if (mark[to] == 1)
          fail(Fault::usage, "grammar: rule ", printable(grammar_.rules[to].name),
               ": expected it not to begin with itself, found left recursion");
        if (mark[to] == 0) mark[to] = 1, path.emplace_back(to, 0);
      }
    }
  }

  std::string_view text_;
  GrammarLimits limits_;
  size_t at_ = 0, elements_ = 0;
  Grammar grammar_;
  std::map<std::string, int32_t> names_;
};

}  // namespace

Grammar parse_grammar(std::string_view text, const GrammarLimits& limits) {
  return Parser(text, limits).parse();
}

}  // namespace deltasane
