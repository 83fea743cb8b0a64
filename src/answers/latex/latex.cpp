#include "answers/latex/latex.h"

#include "answers/latex/grammar.h"
#include "answers/scan.h"

namespace deltasane::answers {

namespace {

// The part after the last "=" of a chain of at least two; the whole text otherwise.
std::string_view last_side(std::string_view latex) {
  if (latex.find_first_of(",;") != npos) return latex;
  size_t last = npos;
  int count = 0;
  for (size_t at = 0; at < latex.size(); ++at) {
    if (latex[at] != '=') continue;
    if (at > 0 && std::string_view("\\<!>").find(latex[at - 1]) != npos) continue;
    last = at;
    ++count;
  }
  return count >= 2 ? latex.substr(last + 1) : latex;
}

}  // namespace

Tree parse_latex(std::string_view latex) {
  Tree tree = parse_within(latex, 0);
  if (!tree) {
    const std::string_view side = last_side(latex);
    if (side.size() != latex.size()) tree = parse_within(side, 0);
  }
  return tree && tree->kind != Kind::nothing ? tree : nullptr;
}

}  // namespace deltasane::answers
