#include "text/utf8_stream.h"

#include "text/utf8.h"

namespace deltasane {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

}  // namespace

std::string Utf8Stream::feed(std::string_view bytes) {
  buffered_ += bytes;
  std::string text;
  std::string_view rest = buffered_;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Step::Kind::partial) break;
    text += step.kind == Utf8Step::Kind::complete ? rest.substr(0, step.length) : replacement;
    rest.remove_prefix(step.length);
  }
  buffered_.erase(0, buffered_.size() - rest.size());
  return text;
}

std::string Utf8Stream::finish() {
  if (buffered_.empty()) return {};
  buffered_.clear();
  return std::string(replacement);
}

}  // namespace deltasane
