#include "corpus/mixture.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "base/random.h"
#include "corpus/description.h"

namespace deltasane::corpus {
namespace {

constexpr std::string_view measure_names[] = {"bytes", "pieces"};
constexpr uint64_t pattern_slots = 65536, measured_pieces = 256;

struct Part {
  double share;
  std::unique_ptr<Source> source;
  uint64_t slots = 0;
};

// The index behind the parenthesis that closes the one at `open`; quoted ones are ignored.
size_t after_closing_parenthesis(std::string_view text, size_t open) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = open; at < text.size(); ++at) {
    if (quoted && text[at] == '\\')
      ++at;
    else if (text[at] == '"')
      quoted = !quoted;
    else if (!quoted && text[at] == '(')
      ++depth;
    else if (!quoted && text[at] == ')' && --depth == 0)
      return at + 1;
  }
  fail(Fault::usage, "mixed: expected a closing parenthesis, found none for ",
       printable(text.substr(open)));
}

Part read_part(std::string_view text, size_t& at, const OpeningProgress& progress) {
  Part part;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + at, end, part.share);
  const size_t open = size_t(read.ptr - text.data()) + 1;
  if (read.ec != std::errc() || !(part.share > 0) || !std::isfinite(part.share) ||
      !text.substr(open - 1).starts_with("*("))
    fail(Fault::usage, "mixed: expected SHARE*(SOURCE) with a share above 0, found ",
         printable(text.substr(at)));
  at = after_closing_parenthesis(text, open);
  part.source = open_source(text.substr(open + 1, at - open - 2), progress);
  return part;
}

double mean_length(const Source& source) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < measured_pieces; ++i) {
    const Piece piece = source.piece(i);
    bytes += piece.text.size() + 4 * piece.tokens.size();
  }
  if (bytes == 0)
    fail(Fault::file, source.description(), ": expected text, found ", measured_pieces,
         " empty pieces");
  return double(bytes) / double(measured_pieces);
}

class Mixture final : public Source {
 public:
  Mixture(std::string_view rest, const OpeningProgress& progress) {
    size_t at = 0;
    do {
      parts_.push_back(read_part(rest, at, progress));
    } while (at < rest.size() && rest[at] == '+' && ++at);
    if (at < rest.size() && rest[at++] != ',')
      fail(Fault::usage, "mixed: expected + or , after a source, found ",
           printable(rest.substr(at - 1)));
    Options options("mixed", rest.substr(at), Options::Subject::none);
    const uint64_t seed = options.number("seed", 1, 0, ~uint64_t{0});
    const size_t measure = options.choice("by", 0, measure_names);
    options.done();
    count_slots(measure == 0);
    arrange(seed);
    for (const Part& part : parts_)
      description_ += cat(description_.empty() ? "mixed:" : "+", part.share, "*(",
                          part.source->description(), ")");
    description_ += cat(",seed=", seed, ",by=", measure_names[measure]);
  }

  Piece piece(uint64_t index) const override {
    const Slot& slot = pattern_[index % pattern_.size()];
    const Part& part = parts_[slot.part];
    return part.source->piece(index / pattern_.size() * part.slots + slot.rank);
  }

  std::optional<uint64_t> pieces_before_repeat() const override {
    std::optional<uint64_t> least;
    for (uint32_t part = 0; part < parts_.size(); ++part) {
      const std::optional<uint64_t> own = parts_[part].source->pieces_before_repeat();
      if (!own) continue;
      const uint64_t index = index_of_piece(part, *own);
      least = least ? std::min(*least, index) : index;
    }
    return least;
  }

  std::vector<const Source*> parts() const override {
    std::vector<const Source*> all;
    for (const Part& part : parts_) {
      const std::vector<const Source*> own = part.source->parts();
      all.insert(all.end(), own.begin(), own.end());
    }
    return all;
  }

  std::string description() const override { return description_; }

 private:
  struct Slot {
    uint32_t part, rank;  // rank: index among the slots of its source
  };

  // Where piece `number` of a source comes in the mixture.
  uint64_t index_of_piece(uint32_t part, uint64_t number) const {
    const uint64_t slots = parts_[part].slots, rank = number % slots;
    const auto slot = std::ranges::find_if(
        pattern_, [&](const Slot& each) { return each.part == part && each.rank == rank; });
    return number / slots * pattern_.size() + uint64_t(slot - pattern_.begin());
  }

  void count_slots(bool by_bytes) {
    std::vector<double> wanted;
    double total = 0;
    for (const Part& part : parts_) {
      wanted.push_back(by_bytes ? part.share / mean_length(*part.source) : part.share);
      total += wanted.back();
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      const double slots = double(pattern_slots) * (wanted[i] / total);
      parts_[i].slots = std::max<uint64_t>(1, uint64_t(std::llround(slots)));
    }
  }

  void arrange(uint64_t seed) {
    for (uint32_t i = 0; i < parts_.size(); ++i)
      pattern_.insert(pattern_.end(), parts_[i].slots, Slot{i, 0});
    constexpr uint64_t purpose =
        0x6D697865643A2A28u;  // separates this stream from other uses of the seed
    Random random(seed ^ purpose);
    for (size_t left = pattern_.size(); left > 1; --left)
      std::swap(pattern_[left - 1], pattern_[random.below(left)]);
    std::vector<uint32_t> seen(parts_.size());
    for (Slot& slot : pattern_) slot.rank = seen[slot.part]++;
  }

  std::vector<Part> parts_;
  std::vector<Slot> pattern_;
  std::string description_;
};

}  // namespace

std::unique_ptr<Source> open_mixture(std::string_view rest, const OpeningProgress& progress) {
  return std::make_unique<Mixture>(rest, progress);
}

}  // namespace deltasane::corpus
