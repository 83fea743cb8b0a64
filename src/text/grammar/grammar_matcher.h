// Follows a text through a grammar, byte by byte: all ways to derive what was read so far, as stacks
// of places in rules. Stacks share what they have in common and are told apart by a number, so a
// state of the matcher is a short list of numbers, and the tokens that can follow are remembered for
// each state.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/tokenizer.h"

namespace deltasane {

class GrammarMatcher {
 public:
  using State = std::vector<uint32_t>;  // stacks, ascending; 0 is the empty one: the text can end

  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar);

  const State& state() const { return state_; }
  static bool can_end(const State& state) { return !state.empty() && state[0] == 0; }
  static bool must_end(const State& state) { return state.size() == 1 && state[0] == 0; }

  State next(const State& state, unsigned char byte);  // empty: it cannot follow
  bool advance(std::string_view bytes);  // false: they cannot follow, and nothing changes

 private:
  struct Frame {
    int32_t rule, alternative, at;
    uint32_t below;
    bool operator==(const Frame&) const = default;
  };
  struct FrameHash {
    size_t operator()(const Frame& frame) const;
  };
  uint32_t number_of(const Frame& frame);
  void expand(uint32_t stack, State& to);

  std::shared_ptr<const Grammar> grammar_;
  std::vector<Frame> frames_;
  std::unordered_map<Frame, uint32_t, FrameHash> numbers_;
  State state_;
};

// The tokens of a vocabulary in the order of their bytes, made once.
class SortedVocabulary {
 public:
  SortedVocabulary(const Tokenizer& tokenizer, int64_t vocabulary);

  struct Token {
    int32_t id;
    std::string_view bytes;
    size_t shared;  // bytes that it begins with as the token before does
  };
  std::span<const Token> tokens() const { return tokens_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  int64_t size() const { return size_; }

 private:
  const Tokenizer* tokenizer_;
  int64_t size_;
  std::vector<Token> tokens_;
};

// Lets a model write only what a grammar allows.
class TokenConstraint {
 public:
  TokenConstraint(std::shared_ptr<const Grammar> grammar,
                  std::shared_ptr<const SortedVocabulary> vocabulary);

  // Bans every token that cannot follow: its logit becomes -infinity. False: none can.
  bool mask(std::span<float> logits);
  void take(int32_t token);  // one that was allowed
  bool is_over() const { return is_over_ || GrammarMatcher::must_end(matcher_.state()); }

 private:
  const std::vector<bool>& allowed();

  std::shared_ptr<const SortedVocabulary> vocabulary_;
  GrammarMatcher matcher_;
  std::map<GrammarMatcher::State, std::vector<bool>> known_;
  bool is_over_ = false;
};

}  // namespace deltasane
