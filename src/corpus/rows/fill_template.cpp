#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "corpus/rows/row_json.h"

namespace deltasane::corpus {
namespace {

// A template alternates: literal, field, literal, ..., literal.
struct Template {
  std::vector<std::string> literals{""}, fields;

  explicit Template(std::string_view text) {
    for (size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      const bool twice = at + 1 < text.size() && text[at + 1] == c;
      if ((c == '{' || c == '}') && twice) {
        literals.back() += text[at++];
      } else if (c == '{') {
        const size_t close = text.find('}', at);
        if (close == text.npos || close == at + 1)
          fail(Fault::usage, "jsonl: template: expected {field}, found ",
               printable(text.substr(at)));
        fields.emplace_back(text.substr(at + 1, close - at - 1));
        literals.emplace_back();
        at = close;
      } else if (c == '}') {
        fail(Fault::usage, "jsonl: template: expected { before }, found ",
             printable(text.substr(0, at + 1)));
      } else {
        literals.back() += c;
      }
    }
    if (fields.empty())
      fail(Fault::usage, "jsonl: template: expected at least one {field}, found ", printable(text));
  }
};

class TemplateRenderer final : public RowRenderer {
 public:
  TemplateRenderer(const std::string& text, LearnedPart learned)
      : text_(text),
        template_(text),
        learn_all_(learned == LearnedPart::all || template_.fields.size() == 1) {}

  RenderedRow render(std::string_view row) const override {
    RenderedRow out;
    const nlohmann::json values = parse_row(row, out);
    if (values.is_null()) return out;
    std::string& text = out.piece.text;
    size_t begin = 0;
    for (size_t i = 0; i < template_.fields.size(); ++i) {
      text += template_.literals[i];
      begin = text.size();
      const std::string& field = template_.fields[i];
      const auto found = values.find(field);
      if (found == values.end())
        return dropped(Drop::unknown_columns,
                       cat("expected the field ", printable(field), ", found none"));
      if (!found->is_string() && !found->is_number())
        return dropped(Drop::not_text, cat("expected a text or a number as ", printable(field),
                                           ", found ", found->type_name()));
      text += found->is_string() ? found->get<std::string>() : found->dump();
    }
    const std::string& before = template_.literals[template_.fields.size() - 1];
    begin -= before.size() - (before.find_last_not_of(" \n\t") + 1);
    text += template_.literals.back();
    out.piece.learned = {{learn_all_ ? 0 : begin, text.size()}};
    return out;
  }

  bool wants(std::string_view column) const override {
    return std::ranges::find(template_.fields, column) != template_.fields.end();
  }

  std::string identity() const override {
    return cat("template, version 1, ", learn_all_ ? "all: " : "last: ", text_);
  }

 private:
  std::string text_;
  Template template_;
  bool learn_all_;
};

}  // namespace

std::unique_ptr<RowRenderer> template_renderer(const std::string& text, LearnedPart learned) {
  return std::make_unique<TemplateRenderer>(text, learned);
}

}  // namespace deltasane::corpus
