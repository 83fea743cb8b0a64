#include "corpus/math/chat.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "base/error.h"
#include "base/printable.h"
#include "corpus/description.h"
#include "corpus/math/draw.h"
#include "corpus/math/write.h"
#include "text/chat/world_chat.h"

namespace deltasane::corpus {
namespace {

constexpr std::string_view split_names[] = {"train", "held-out"};
constexpr std::string_view language_names[] = {"en", "zh", "both"};
constexpr std::string_view style_names[] = {"graded", "brief", "worked", "sentence"};
constexpr std::string_view family_names[] = {"addition", "subtraction", "multiplication",
                                             "division", "comparison",  "chain",
                                             "equation", "story"};
static_assert(std::size(family_names) == family_count);
constexpr uint32_t every_family = (1u << family_count) - 1;

// "3" or "1-4".
void read_levels(std::string_view text, MathOptions& options) {
  const auto is_level = [](char c) { return c >= '1' && c <= '0' + highest_math_level; };
  const bool one = text.size() == 1 && is_level(text[0]);
  const bool range = text.size() == 3 && is_level(text[0]) && text[1] == '-' && is_level(text[2]) &&
                     text[0] <= text[2];
  if (!one && !range)
    fail(Fault::usage, "math-chat: level: expected a level from 1 to ", highest_math_level,
         " or a range such as 1-", highest_math_level, ", found ", printable(text));
  options.lowest_level = text[0] - '0';
  options.highest_level = text.back() - '0';
}

// "all" or "addition+story".
uint32_t read_families(std::string_view text) {
  if (text == "all") return every_family;
  uint32_t families = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('+', at), text.size());
    const std::string_view name = text.substr(at, end - at);
    const auto found = std::ranges::find(family_names, name);
    if (found == std::end(family_names)) fail_unknown("math-chat: family", name, family_names);
    families |= 1u << (found - family_names);
    at = end + 1;
  }
  return families;
}

// The selected families that have this level.
uint32_t families_at(const MathOptions& options, int level) {
  uint32_t families = 0;
  for (int i = 0; i < family_count; ++i)
    if (options.families >> i & 1 && lowest_level_of(Family(i)) <= level) families |= 1u << i;
  return families;
}

Family pick_family(uint32_t families, Random& random) {
  int left = int(random.below(uint64_t(__builtin_popcount(families))));
  int family = 0;
  for (;; ++family)
    if (families >> family & 1 && left-- == 0) return Family(family);
}

Drawn draw_in_split(const MathOptions& options, Random& random) {
  for (;;) {
    const int level = options.lowest_level +
                      int(random.below(uint64_t(options.highest_level - options.lowest_level + 1)));
    const Family family = pick_family(families_at(options, level), random);
    const Drawn drawn = draw_numbers(family, level, random);
    if (is_held_out(drawn) == (options.split == Split::held_out)) return drawn;
  }
}

class MathChat final : public Source {
 public:
  explicit MathChat(const MathOptions& options) : options_(options) {}

  Piece piece(uint64_t index) const override {
    const Problem problem = math_problem(options_, index);
    Piece piece;
    piece.text = chat_prompt(problem.question);
    const size_t begin = piece.text.size();
    piece.text += ' ';
    piece.text += problem.solution;
    piece.text += "\n\n";
    piece.learned = {{begin, piece.text.size()}};
    return piece;
  }

  std::string description() const override { return cat("math-chat:", describe(options_)); }

 private:
  MathOptions options_;
};

}  // namespace

MathOptions math_options(std::string_view text) {
  Options given("math-chat", text, Options::Subject::none);
  MathOptions options;
  options.seed = given.number("seed", options.seed, 0, ~uint64_t{0});
  options.split = Split(given.choice("split", 0, split_names));
  read_levels(given.text("level", "1-4"), options);
  options.language = Language(given.choice("language", 0, language_names));
  options.style = MathStyle(given.choice("style", 0, style_names));
  options.families = read_families(given.text("family", "all"));
  given.done();
  for (int level = options.lowest_level; level <= options.highest_level; ++level)
    if (families_at(options, level) == 0)
      fail(Fault::usage, "math-chat: family: expected one that has problems of level ", level,
           ", found ", printable(text));
  return options;
}

std::string describe(const MathOptions& options) {
  std::string families;
  for (int i = 0; i < family_count; ++i)
    if (options.families >> i & 1) families += cat(families.empty() ? "" : "+", family_names[i]);
  if (options.families == every_family) families = "all";
  return cat("seed=", options.seed, ",split=", split_names[int(options.split)],
             ",level=", options.lowest_level, "-", options.highest_level,
             ",language=", language_names[int(options.language)],
             ",style=", style_names[int(options.style)], ",family=", families);
}

Problem math_problem(const MathOptions& options, uint64_t index) {
  constexpr uint64_t purpose =
      0x6D6174682D636861u;  // separates this stream from other uses of the seed
  Random random(options.seed ^ purpose, index);
  const Drawn drawn = draw_in_split(options, random);
  Language language = options.language;
  if (language == Language::both)
    language = random.below(2) == 0 ? Language::english : Language::chinese;
  MathStyle style = options.style;
  if (style == MathStyle::graded) style = drawn.level == 1 ? MathStyle::brief : MathStyle::worked;
  Problem problem = write_problem(drawn, language, style, random);
  problem.family = family_names[int(drawn.family)];
  problem.language = language_names[int(language)];
  return problem;
}

std::string chat_prompt(std::string_view question) {
  const Message message{Role::user, std::string(question)};
  return deltasane::chat_prompt({&message, 1}, ReplyMode::plain);
}

std::unique_ptr<Source> open_math_chat(std::string_view options) {
  return std::make_unique<MathChat>(math_options(options));
}

}  // namespace deltasane::corpus
