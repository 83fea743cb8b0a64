#include "cli/text/chat_flags.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/number_range.h"

namespace deltasane::cli {

void ChatFlags::describe(CLI::App& app) {
  app.add_option("--mode", mode, "plain, think or fast-think")
      ->check(one_of({"plain", "think", "fast-think"}))
      ->capture_default_str();
  app.add_option("--template", chat_template,
                 "chat template: world, chatml or chatml-think; the model's own if not given")
      ->check(one_of({"world", "chatml", "chatml-think"}));
}

std::unique_ptr<ChatTemplate> ChatFlags::open(const Tokenizer& tokenizer) const {
  if (!chat_template.empty()) return chat_template_named(chat_template);
  if (auto found = chat_template_of(tokenizer)) return found;
  fail(Fault::usage, "chat template: expected one of the model's that is known, found ",
       tokenizer.chat_template().empty() ? "none" : "another",
       "; choose one with --template world, chatml or chatml-think");
}

}  // namespace deltasane::cli
