#include <algorithm>

#include "base/json/array_at.h"
#include "serve/route/text_reply.h"
#include "serve/wire/event_frame.h"
#include "serve/wire/held_scores.h"
#include "serve/wire/token_lists.h"
#include "serve/wire/token_text.h"
#include "text/utf8_stream.h"

namespace deltasane::serve {
namespace {

constexpr size_t most_prompts = 256;

struct CompletionFields {
  std::vector<std::vector<int32_t>> prompts;
  int64_t tokens = 0;
  bool echoes = false;
  std::optional<int64_t> top;  // logprobs
  StateFields state;
};

std::vector<std::vector<int32_t>> read_prompts(const Service& service, Fields& fields,
                                               bool begins_document) {
  const Json* const prompt = fields.find("prompt");
  if (!prompt) refuse_field("prompt", "expected a text or token ids, found none");
  const auto encode = [&](const Json& text) {
    return encode_text(service.tokenizer, text.get_ref<const std::string&>(), begins_document);
  };
  std::vector<std::vector<int32_t>> found;
  const bool is_list = prompt->is_array() && !prompt->empty() &&
                       (prompt->front().is_string() || prompt->front().is_array());
  if (prompt->is_string()) {
    found.push_back(encode(*prompt));
  } else if (is_list) {
    if (prompt->size() > most_prompts)
      refuse_field("prompt", cat("expected at most ", most_prompts, " prompts, found ",
                                 prompt->size()));
    for (const Json& one : *prompt) {
      const std::string param = cat("prompt[", found.size(), "]");
      if (one.is_string())
        found.push_back(encode(one));
      else if (one.is_array())
        found.push_back(read_ids(one, param, service.model.vocabulary()));
      else
        refuse_field(param, "expected a text or a list of token ids");
    }
  } else if (prompt->is_array()) {
    found.push_back(read_ids(*prompt, "prompt", service.model.vocabulary()));
  } else {
    refuse_field("prompt", "expected a text, texts, token ids or lists of token ids");
  }
  size_t ids = 0;
  for (std::vector<int32_t>& one : found) {
    // An empty text begins a document.
    if (const auto end = service.tokenizer.end_of_document(); one.empty() && end) one.push_back(*end);
    if (one.empty()) refuse_field("prompt", "expected at least one token, found none");
    ids += one.size();
  }
  if (ids > size_t{1} << 20) refuse_field("prompt", "expected at most 1048576 tokens in all");
  return found;
}

class Completion final : public TextReply {
 public:
  Completion(Service& service, const Call& call, GenerationFields wanted, CompletionFields fields)
      : TextReply(service, call, std::move(wanted), random_id("cmpl-")),
        fields_(std::move(fields)),
        choices_(fields_.prompts.size() * size_t(wanted_.samples)) {
    state_in_ = fields_.state.id;
    if (!fields_.state.session.empty()) session = fields_.state.session;
    keeps_state_ = fields_.state.returns;
    source = fields_.state.state;
    for (const std::vector<int32_t>& prompt : fields_.prompts) {
      TextRequest request{0, service.model.fresh_state(), fields_.state.unread,
                          wanted_.samplers()};
      request.prompt.insert(request.prompt.end(), prompt.begin(), prompt.end());
      request.keeps_before_stop = fields_.state.returns;
      request.limits = wanted_.limits(fields_.tokens);
      request.top_written = fields_.top;
      constrain(request, fields_.top.has_value());
      if (fields_.echoes) request.top_prompt = fields_.top;
      prompts.push_back(std::move(request));
      usage_.prompt += int64_t(prompt.size());
    }
  }

  void on_prefix_found(size_t, int64_t tokens) override { usage_.cached += tokens; }
  void on_prompt_read(size_t prompt, LogProbabilities scores) override {
    if (!fields_.echoes) return;
    for (size_t sample = 0; sample < size_t(wanted_.samples); ++sample) {
      Choice& choice = choices_[prompt * size_t(wanted_.samples) + sample];
      if (fields_.top) {
        choice.lists.emplace(service_.tokenizer);
        choice.lists->add_prompt(fields_.prompts[prompt], scores);
      }
      Utf8Stream characters;
      choice.text = characters.feed(service_.tokenizer.decode(fields_.prompts[prompt]));
      choice.text += characters.finish();
      if (wanted_.streams) send_piece(prompt, sample, choice.text, choice.lists);
    }
  }

  void on_token(size_t prompt, const WrittenToken& token) override {
    ++usage_.written;
    Choice& choice = choices_[prompt * size_t(wanted_.samples) + token.sample];
    if (fields_.top) {
      if (!choice.lists) choice.lists.emplace(service_.tokenizer);
      if (!choice.held) choice.held.emplace(service_.tokenizer);
      add_scores(choice, choice.held->add(token.token, {token.token, *token.log_probabilities},
                                          token.piece));
    }
    if (wanted_.streams && (!token.piece.empty() || has_scores(choice)))
      send_piece(prompt, token.sample, token.piece, choice.lists);
  }

 private:
  using ScoredToken = std::pair<int32_t, LogProbabilities>;
  struct Choice {
    std::string text, finish;
    std::optional<TokenLists> lists;
    std::optional<HeldScores<ScoredToken>> held;
    std::optional<EventFrame> frame;  // of a piece of text alone
  };

  static void add_scores(Choice& choice, const std::vector<ScoredToken>& scores) {
    for (const auto& [token, score] : scores) choice.lists->add(token, score);
  }
  static bool has_scores(const Choice& choice) { return choice.lists && !choice.lists->empty(); }

  void send_piece(size_t prompt, size_t sample, const std::string& text,
                  std::optional<TokenLists>& lists) {
    const size_t index = prompt * size_t(wanted_.samples) + sample;
    if (!lists && !wanted_.sends_usage_always) {
      std::optional<EventFrame>& frame = choices_[index].frame;
      if (!frame) frame.emplace(chunk_of(index, std::string(EventFrame::gap), nullptr));
      return send_frame(frame->with(text));
    }
    Json chunk = chunk_of(index, text, nullptr);
    if (lists) chunk["choices"][0]["logprobs"] = lists->take();
    send(chunk);
  }

  Json head() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", service_.settings.model_name}};
  }
  Json chunk_of(size_t index, const std::string& text, const Json& finish) const {
    Json chunk = head();
    chunk["choices"] = Json::array({{{"index", index},
                                     {"text", text},
                                     {"logprobs", nullptr},
                                     {"finish_reason", finish}}});
    if (wanted_.sends_usage)
      chunk["usage"] = wanted_.sends_usage_always ? usage_.json() : Json(nullptr);
    return chunk;
  }

  void take_text(size_t prompt, GeneratedText& text) override {
    const size_t index = prompt * size_t(wanted_.samples) + text.sample;
    Choice& choice = choices_[index];
    choice.text += text.text;
    choice.finish = finish_reason(text.ended);
    if (choice.held && text.ended == Ended::token_limit) add_scores(choice, choice.held->take_all());
    if (!wanted_.streams) return;
    Json last = chunk_of(index, "", choice.finish);
    if (has_scores(choice)) last["choices"][0]["logprobs"] = choice.lists->take();
    send(last);
  }

  Json unfinished() const override {
    Json event = head();
    event["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i)
      if (choices_[i].finish.empty())
        array_at(event, "choices").push_back({{"index", i}, {"text", ""}, {"finish_reason", "error"}});
    return event;
  }

  Json reply() override {
    Json all = head();
    all["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i)
      array_at(all, "choices")
          .push_back({{"index", i},
                      {"text", choices_[i].text},
                      {"logprobs", choices_[i].lists ? choices_[i].lists->take() : Json()},
                      {"finish_reason", choices_[i].finish}});
    all["usage"] = usage_.json();
    all["system_fingerprint"] = service_.settings.version;
    all["deltasane"] = state_fields();
    return all;
  }

  void end_events() override {
    if (!wanted_.sends_usage && !keeps_state_) return;
    Json last = head();
    last["choices"] = Json::array();
    last["usage"] = usage_.json();
    last["deltasane"] = state_fields();
    send(last);
  }

  const CompletionFields fields_;
  std::vector<Choice> choices_;
  Usage usage_;
};

}  // namespace

void complete_prompts(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  expect_model(service, fields);
  GenerationFields wanted = read_generation(fields, service.settings.sampling);
  CompletionFields found;
  found.echoes = fields.flag("echo").value_or(false);
  found.tokens = read_token_limit(fields, "max_tokens", found.echoes ? 0 : 1)
                     .value_or(service.settings.max_completion);
  const Json* const logprobs = fields.find("logprobs");
  if (logprobs && !logprobs->is_boolean()) found.top = fields.integer("logprobs", 0, 20);
  if (logprobs && logprobs->is_boolean() && logprobs->get<bool>()) found.top = 0;
  if (found.top) found.top = std::min(*found.top, service.model.vocabulary());
  refuse_tools(fields);
  fields.refuse_unless_empty("suffix", "suffixes are not supported");
  found.state = read_state_fields(service, call, fields);
  found.prompts = read_prompts(service, fields, found.state.id.empty());
  if (found.state.returns && found.prompts.size() * size_t(wanted.samples) != 1)
    refuse_field("return_state", "expected one prompt and one text");
  if (found.echoes && !found.state.unread.empty())
    refuse_field("echo", "expected a state that has read its whole text", "unsupported");
  const auto job =
      std::make_shared<Completion>(service, call, std::move(wanted), std::move(found));
  job->ignore_fields(fields.unknown());
  submit(service, call, job);
}

}  // namespace deltasane::serve
