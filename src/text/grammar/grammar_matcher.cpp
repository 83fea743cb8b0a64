#include "text/grammar/grammar_matcher.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace deltasane {
namespace {

constexpr size_t most_stacks = 4096, most_frames = size_t{1} << 20, most_known = 512;

}  // namespace

size_t GrammarMatcher::FrameHash::operator()(const Frame& frame) const {
  uint64_t hash = uint64_t(uint32_t(frame.rule)) << 32 | frame.below;
  hash = (hash ^ (uint64_t(frame.alternative) << 17 | uint64_t(frame.at))) * 0x9E3779B97F4A7C15u;
  return size_t(hash ^ (hash >> 29));
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)) {
  frames_.push_back({-1, 0, 0, 0});  // the empty stack
  const auto& root = grammar_->rules[size_t(grammar_->root)];
  for (size_t i = 0; i < root.alternatives.size(); ++i)
    expand(number_of({grammar_->root, int32_t(i), 0, 0}), state_);
  std::ranges::sort(state_);
  state_.erase(std::unique(state_.begin(), state_.end()), state_.end());
}

uint32_t GrammarMatcher::number_of(const Frame& frame) {
  const auto [found, is_added] = numbers_.emplace(frame, uint32_t(frames_.size()));
  if (is_added) {
    if (frames_.size() >= most_frames)
      fail(Fault::usage, "grammar: expected texts that nest less, found more than ", most_frames,
           " places");
    frames_.push_back(frame);
  }
  return found->second;
}

// Adds the stacks whose next element is a byte.
void GrammarMatcher::expand(uint32_t stack, State& to) {
  std::vector<uint32_t> open{stack};
  while (!open.empty()) {
    const uint32_t number = open.back();
    open.pop_back();
    if (number == 0) {
      to.push_back(0);
      continue;
    }
    const Frame frame = frames_[number];
    const Grammar::Sequence& sequence =
        grammar_->rules[size_t(frame.rule)].alternatives[size_t(frame.alternative)];
    if (size_t(frame.at) == sequence.size()) {
      open.push_back(frame.below);
      continue;
    }
    const Grammar::Element& element = sequence[size_t(frame.at)];
    if (element.rule < 0) {
      to.push_back(number);
      if (to.size() > 16 * most_stacks)
        fail(Fault::usage, "grammar: expected fewer ways to read a text, found more than ",
             most_stacks);
      continue;
    }
    // Where nothing follows the rule there is nothing to come back to.
    const bool is_last = size_t(frame.at) + 1 == sequence.size();
    const uint32_t below =
        is_last ? frame.below : number_of({frame.rule, frame.alternative, frame.at + 1, frame.below});
    const auto& rule = grammar_->rules[size_t(element.rule)];
    for (size_t i = 0; i < rule.alternatives.size(); ++i)
      open.push_back(number_of({element.rule, int32_t(i), 0, below}));
  }
}

GrammarMatcher::State GrammarMatcher::next(const State& state, unsigned char byte) {
  State found;
  for (const uint32_t number : state) {
    if (number == 0) continue;
    const Frame frame = frames_[number];
    const Grammar::Sequence& sequence =
        grammar_->rules[size_t(frame.rule)].alternatives[size_t(frame.alternative)];
    if (!sequence[size_t(frame.at)].bytes.test(byte)) continue;
    expand(number_of({frame.rule, frame.alternative, frame.at + 1, frame.below}), found);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  if (found.size() > most_stacks)
    fail(Fault::usage, "grammar: expected fewer ways to read a text, found more than ", most_stacks);
  return found;
}

bool GrammarMatcher::advance(std::string_view bytes) {
  State state = state_;
  for (const char byte : bytes) {
    state = next(state, static_cast<unsigned char>(byte));
    if (state.empty()) return false;
  }
  state_ = std::move(state);
  return true;
}

SortedVocabulary::SortedVocabulary(const Tokenizer& tokenizer, int64_t vocabulary)
    : tokenizer_(&tokenizer), size_(vocabulary) {
  for (int32_t id = 0; id < int32_t(vocabulary); ++id)
    if (const std::string_view bytes = tokenizer.bytes_of(id); !bytes.empty())
      tokens_.push_back({id, bytes, 0});
  std::ranges::sort(tokens_, {}, &Token::bytes);
  for (size_t i = 1; i < tokens_.size(); ++i)
    tokens_[i].shared = size_t(std::ranges::mismatch(tokens_[i].bytes, tokens_[i - 1].bytes).in1 -
                               tokens_[i].bytes.begin());
}

TokenConstraint::TokenConstraint(std::shared_ptr<const Grammar> grammar,
                                 std::shared_ptr<const SortedVocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)), matcher_(std::move(grammar)) {}

const std::vector<bool>& TokenConstraint::allowed() {
  const auto found = known_.find(matcher_.state());
  if (found != known_.end()) return found->second;
  if (known_.size() >= most_known) known_.clear();
  std::vector<bool> can_follow(size_t(vocabulary_->size()), false);
  // States after each byte of the token; those of shared bytes are those of the token before.
  std::vector<GrammarMatcher::State> states{matcher_.state()};
  for (const SortedVocabulary::Token& token : vocabulary_->tokens()) {
    if (states.size() > token.shared + 1) states.resize(token.shared + 1);
    while (states.size() <= token.bytes.size() && !states.back().empty())
      states.push_back(matcher_.next(
          states.back(), static_cast<unsigned char>(token.bytes[states.size() - 1])));
    can_follow[size_t(token.id)] = states.size() == token.bytes.size() + 1 && !states.back().empty();
  }
  if (GrammarMatcher::can_end(matcher_.state()))
    for (int32_t id = 0; id < int32_t(vocabulary_->size()); ++id)
      if (vocabulary_->tokenizer().ends_text(id)) can_follow[size_t(id)] = true;
  return known_[matcher_.state()] = std::move(can_follow);
}

bool TokenConstraint::mask(std::span<float> logits) {
  const std::vector<bool>& can_follow = allowed();
  bool any = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (id < can_follow.size() && can_follow[id])
      any = any || logits[id] > -std::numeric_limits<float>::infinity();
    else
      logits[id] = -std::numeric_limits<float>::infinity();
  }
  return any;
}

void TokenConstraint::take(int32_t token) {
  if (vocabulary_->tokenizer().ends_text(token)) {
    is_over_ = true;
    return;
  }
  require(matcher_.advance(vocabulary_->tokenizer().bytes_of(token)), "the token was allowed");
}

}  // namespace deltasane
