// Context-free grammars over bytes, in GBNF, the notation of llama.cpp:
//
//     root  ::= "yes" | "no" | list
//     list  ::= "[" item ("," item)* "]"
//     item  ::= [0-9]+ | [^"\x00-\x1f]{1,8}
//
// Characters are UTF-8; a class of characters becomes ranges of bytes. Grammars come from strangers:
// their size, nesting and repetitions are limited, and left recursion is refused, so that matching
// always ends.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {

struct Grammar {
  struct Element {
    std::bitset<256> bytes{};  // one of these, where it is no rule
    int32_t rule = -1;         // index of a rule
  };
  using Sequence = std::vector<Element>;
  struct Rule {
    std::string name;
    std::vector<Sequence> alternatives;
  };
  std::vector<Rule> rules;
  int32_t root = 0;
};

struct GrammarLimits {
  size_t text = 256 << 10;      // bytes
  size_t elements = 100'000;    // of all sequences
  size_t nesting = 64;          // of groups
  int64_t repetitions = 1000;   // {m,n}
};

// Fails, and names the line, where the text is no grammar or beyond a limit. There must be a rule
// named root.
Grammar parse_grammar(std::string_view text, const GrammarLimits& limits = {});

}  // namespace deltasane
