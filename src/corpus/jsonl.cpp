#include "corpus/jsonl.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io/file.h"
#include "base/printable.h"
#include "corpus/description.h"
#include "corpus/shuffle.h"

namespace deltasane::corpus {
namespace {

using Json = nlohmann::json;

constexpr std::string_view learned_names[] = {"last", "all"};
constexpr std::string_view default_template = "User: {question}\n\nAssistant: {answer}\n\n";

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

class JsonRows final : public Source {
 public:
  JsonRows(Options options, std::string text)
      : map_(options.subject()), template_text_(terminated(text)), template_(template_text_) {
    shuffled_ = options.choice("order", 0, order_names) == 1;
    seed_ = options.number("seed", 1, 0, ~uint64_t{0});
    learn_all_ = options.choice("learned", 0, learned_names) == 1 || template_.fields.size() == 1;
    options.done();
    find_rows();
    for (uint64_t i = 0; i < rows_.size(); ++i) row_piece(i);
    description_ =
        cat("jsonl:", quoted_if_needed(options.subject()),
            ",template=", quoted_if_needed(template_text_), ",order=", order_names[shuffled_],
            ",seed=", seed_, ",learned=", learned_names[learn_all_]);
  }

  Piece piece(uint64_t index) const override {
    return row_piece(shuffled_ ? shuffled_epochs(index, rows_.size(), seed_)
                               : index % rows_.size());
  }

  std::optional<uint64_t> pieces() const override { return rows_.size(); }
  std::string description() const override { return description_; }
  std::vector<fs::path> files() const override { return {map_.path()}; }

 private:
  struct Row {
    uint64_t begin, end;
  };

  static std::string terminated(std::string text) {
    if (!text.ends_with('\n')) text += "\n\n";
    return text;
  }

  std::string_view text() const {
    return {reinterpret_cast<const char*>(map_.bytes().data()), map_.bytes().size()};
  }

  void find_rows() {
    for (size_t at = 0; at < text().size();) {
      const size_t end = std::min(text().find('\n', at), text().size());
      if (text().substr(at, end - at).find_first_not_of(" \t\r") != std::string_view::npos)
        rows_.push_back({at, end});
      at = end + 1;
    }
    if (rows_.empty()) fail(Fault::file, map_.path(), ": expected rows, found an empty corpus");
  }

  template <class... Part>
  [[noreturn]] void reject(const Row& row, const Part&... part) const {
    const std::string_view before = text().substr(0, row.begin);
    fail(Fault::file, map_.path(), ":", 1 + std::ranges::count(before, '\n'), ": expected ",
         part...);
  }

  std::string field_of(const Json& values, const std::string& field, const Row& row) const {
    const auto found = values.find(field);
    if (found == values.end()) reject(row, "the field ", printable(field), ", found none");
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number()) return found->dump();
    reject(row, "a text or a number as ", printable(field), ", found ", found->type_name());
  }

  Piece row_piece(uint64_t number) const {
    const Row& row = rows_[number];
    const std::string_view line = text().substr(row.begin, row.end - row.begin);
    const Json values = Json::parse(line, nullptr, false);
    if (!values.is_object()) reject(row, "a JSON object, found ", printable(line));
    Piece piece;
    size_t begin = 0;
    for (size_t i = 0; i < template_.fields.size(); ++i) {
      piece.text += template_.literals[i];
      begin = piece.text.size();
      piece.text += field_of(values, template_.fields[i], row);
    }
    const std::string& before = template_.literals[template_.fields.size() - 1];
    begin -= before.size() - (before.find_last_not_of(" \n\t") + 1);
    piece.text += template_.literals.back();
    piece.learned = {{learn_all_ ? 0 : begin, piece.text.size()}};
    return piece;
  }

  MappedFile map_;
  std::string template_text_;
  Template template_;
  bool shuffled_ = false, learn_all_ = false;
  uint64_t seed_ = 0;
  std::vector<Row> rows_;
  std::string description_;
};

}  // namespace

std::unique_ptr<Source> open_jsonl(std::string_view rest) {
  Options options("jsonl", rest, Options::Subject::required);
  std::string text = options.text("template", default_template);
  return std::make_unique<JsonRows>(std::move(options), std::move(text));
}

}  // namespace deltasane::corpus
