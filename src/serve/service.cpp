#include "serve/service.h"

namespace deltasane::serve {

std::unique_ptr<ChatTemplate> expect_fitting(std::unique_ptr<ChatTemplate> chat,
                                             const Tokenizer& tokenizer, ReplyMode mode) {
  if (!chat) return nullptr;
  const Message question{Role::user, "?"};
  std::vector<int32_t> ids;
  chat->append_prompt({&question, 1}, mode, tokenizer, ids);
  return chat;
}

}  // namespace deltasane::serve
