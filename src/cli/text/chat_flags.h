// The flags of commands that talk with a model by its chat template.
#pragma once

#include <memory>
#include <string>

#include "text/chat/chat_template.h"

namespace CLI {
class App;
}

namespace deltasane::cli {

struct ChatFlags {
  std::string mode = "plain", chat_template;

  void describe(CLI::App& app);
  ReplyMode reply_mode() const { return reply_mode_named(mode); }
  // As --template says, or the model's own.
  std::unique_ptr<ChatTemplate> open(const Tokenizer& tokenizer) const;
};

}  // namespace deltasane::cli
