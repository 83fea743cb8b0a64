#include "corpus/rows/jsonl.h"

#include "base/cat.h"
#include "corpus/rows/row_source.h"
#include "corpus/shuffle.h"

namespace deltasane::corpus {
namespace {

constexpr std::string_view learned_names[] = {"last", "all"};
constexpr std::string_view default_template = "User: {question}\n\nAssistant: {answer}\n\n";

}  // namespace

std::unique_ptr<Source> open_jsonl(std::string_view rest, const OpeningProgress& progress) {
  Options options("jsonl", rest, Options::Subject::required);
  std::string text = options.text("template", default_template);
  if (!text.ends_with('\n')) text += "\n\n";
  RowSettings settings;
  settings.paths = options.subject();
  settings.every_row = true;
  settings.read_order(options);
  const size_t learned = options.choice("learned", 0, learned_names);
  auto renderer = template_renderer(text, LearnedPart(learned));
  options.done();
  std::string description =
      cat("jsonl:", quoted_if_needed(settings.paths), ",template=", quoted_if_needed(text),
          ",order=", order_names[settings.order], ",seed=", settings.seed,
          ",learned=", learned_names[learned]);
  return make_row_source(settings, std::move(renderer), std::move(description), progress);
}

}  // namespace deltasane::corpus
