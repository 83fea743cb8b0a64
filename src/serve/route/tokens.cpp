#include "base/json/array_at.h"
#include "serve/route/route.h"
#include "serve/wire/token_text.h"
#include "text/utf8_stream.h"

namespace deltasane::serve {

void tokenize_text(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  expect_model(service, fields);
  auto text = fields.text("prompt");
  if (!text) text = fields.text("content");
  if (!text) refuse_field("prompt", "expected a text, found none");
  const bool begins_document = fields.flag("add_special_tokens").value_or(true);
  const std::vector<int32_t> ids = encode_text(service.tokenizer, *text, begins_document);
  Json reply{{"tokens", ids}, {"count", ids.size()}, {"max_model_len", int64_t{1} << 30}};
  if (fields.flag("return_token_strs").value_or(false)) {
    reply["token_strs"] = Json::array();
    for (const int32_t id : ids)
      array_at(reply, "token_strs").push_back(token_text(service.tokenizer, id));
  }
  reply_json(call, reply);
}

void detokenize_ids(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  expect_model(service, fields);
  const Json* const list = fields.find("tokens");
  if (!list || !list->is_array()) refuse_field("tokens", "expected a list of token ids");
  const std::vector<int32_t> ids = read_ids(*list, "tokens", service.model.vocabulary());
  Utf8Stream characters;
  std::string text = characters.feed(service.tokenizer.decode(ids, SpecialTokens::recognized));
  text += characters.finish();
  reply_json(call, {{"prompt", text}, {"content", text}});
}

void describe_tokenizer(Service& service, Call& call) {
  const Tokenizer& tokenizer = service.tokenizer;
  const std::string end = end_of_text_name(tokenizer);
  const auto start = tokenizer.document_start();
  Json reply{{"tokenizer_class", tokenizer.name()},
             {"vocab_size", tokenizer.vocabulary_size()},
             {"eos_token", end},
             {"bos_token", start.empty() ? end : token_text(tokenizer, start[0])},
             {"pad_token", end}};
  if (!tokenizer.chat_template().empty()) reply["chat_template"] = tokenizer.chat_template();
  reply_json(call, reply);
}

}  // namespace deltasane::serve
