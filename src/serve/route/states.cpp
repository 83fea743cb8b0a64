#include "serve/route/state_upload.h"
#include "serve/route/text_reply.h"
#include "serve/wire/token_text.h"

namespace deltasane::serve {
namespace {

Json card_of(const StateRecord& record) {
  return {{"id", record.id},
          {"object", "state"},
          {"created", record.created},
          {"position", record.position + int64_t(record.unread.size())},
          {"bytes", record.bytes}};
}

// Reads a text into a state, and keeps what comes out.
class StateReading final : public TextReply {
 public:
  StateReading(Service& service, const Call& call, GenerationFields wanted, TextRequest request,
               std::string from)
      : TextReply(service, call, std::move(wanted), {}), tokens_(int64_t(request.prompt.size())) {
    session = from.empty() ? random_id("read_") : from;
    state_in_ = std::move(from);
    keeps_state_ = true;
    request.limits = TextLimits{{}, 0};
    request.top_prompt = 0;
    prompts.push_back(std::move(request));
  }
  void on_prompt_read(size_t, LogProbabilities scores) override {
    for (const double one : scores.tokens) sum_ += one;
    scored_ = int64_t(scores.tokens.size());
  }
  void on_token(size_t, const WrittenToken&) override {}

 private:
  void take_text(size_t, GeneratedText&) override {}
  void end_events() override {}
  Json reply() override {
    Json card = card_of(service_.states.describe(owner, state_out_));
    card["tokens"] = tokens_;
    card["loss"] = scored_ > 0 ? Json(-sum_ / double(scored_)) : Json(nullptr);
    return card;
  }

  int64_t tokens_, scored_ = 0;
  double sum_ = 0;
};

void read_into(Service& service, Call& call, const std::string& from, const Json& body) {
  Fields fields(body);
  fields.find("from");
  const Json* const prompt = fields.find("prompt");
  if (!prompt || !(prompt->is_string() || prompt->is_array()))
    refuse_field("prompt", "expected a text or token ids");
  TextRequest request{0, service.model.fresh_state(), {}, {Sampler(SamplerSettings())}};
  KeptState kept;
  if (!from.empty()) kept = service.states.find(call.owner, from);
  request.prompt = std::move(kept.unread);
  const std::vector<int32_t> ids =
      prompt->is_string()
          ? encode_text(service.tokenizer, prompt->get_ref<const std::string&>(), from.empty())
          : read_ids(*prompt, "prompt", service.model.vocabulary());
  request.prompt.insert(request.prompt.end(), ids.begin(), ids.end());
  if (request.prompt.empty()) refuse_field("prompt", "expected at least one token, found none");
  const auto job = std::make_shared<StateReading>(service, call, GenerationFields(),
                                                  std::move(request), from);
  job->source = std::move(kept.state);
  job->ignore_fields(fields.unknown());
  submit(service, call, job);
}

}  // namespace

void create_state(Service& service, Call& call) {
  const Json body = read_body(call.request);
  Fields fields(body);
  const std::string from = fields.text("from").value_or("");
  if (fields.find("prompt")) return read_into(service, call, from, body);
  if (from.empty()) refuse_field("from", "expected the id of a state, or a prompt to read");
  const std::string id = service.states.fork(call.owner, from);
  reply_json(call, card_of(service.states.describe(call.owner, id)), 201);
}

void read_state_on(Service& service, Call& call) {
  if (const auto upload = std::dynamic_pointer_cast<StateUpload>(call.request.body_reader))
    return upload->finish(call.exchange);
  const Json body = read_body(call.request);
  read_into(service, call, call.ids[0], body);
}

void list_states(Service& service, Call& call) {
  Json list = Json::array();
  for (const StateRecord& record : service.states.list(call.owner)) list.push_back(card_of(record));
  reply_json(call, {{"object", "list"}, {"data", std::move(list)}});
}

void show_state(Service& service, Call& call) {
  reply_json(call, card_of(service.states.describe(call.owner, call.ids[0])));
}

void delete_state(Service& service, Call& call) {
  service.states.remove(call.owner, call.ids[0]);
  reply_json(call, {{"id", call.ids[0]}, {"object", "state.deleted"}, {"deleted", true}});
}

void export_state(Service& service, Call& call) {
  call.exchange->reply({200, "application/octet-stream",
                        service.states.export_file(call.owner, call.ids[0]), {}});
}

void import_state(Service& service, Call& call) {
  std::string id;
  try {
    id = service.states.import_file(call.owner, call.request.body);
  } catch (const Refusal&) {
    throw;
  } catch (const Error& error) {
    throw Refusal(400, "bad_state_file", error.what());
  }
  reply_json(call, card_of(service.states.describe(call.owner, id)), 201);
}

}  // namespace deltasane::serve
