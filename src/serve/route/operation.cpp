#include "serve/route/route.h"

namespace deltasane::serve {
namespace {

constexpr double longest_step = 30;  // seconds, after which the engine is taken for stuck

Json model_card(const Service& service) {
  const ModelDescription& model = service.model.description();
  return {{"id", service.settings.model_name},
          {"object", "model"},
          {"created", service.settings.created},
          {"owned_by", "deltasane"},
          {"meta",
           {{"architecture", model.architecture},
            {"layers", model.layers},
            {"channels", model.channels},
            {"vocabulary", model.vocabulary},
            {"weights", service.model.weight_type()},
            {"sane", to_string(service.model.sane())},
            {"state_bytes", service.model.fresh_state().bytes()},
            {"tokenizer", service.tokenizer.name()}}}};
}

}  // namespace

void answer_health(Service& service, Call& call) {
  if (service.scheduler.seconds_in_step() > longest_step)
    throw Refusal(503, "stuck", "engine: expected a step within 30 seconds, found a longer one");
  reply_json(call, {{"status", "ok"}});
}

void answer_ready(Service& service, Call& call) {
  if (service.is_draining) throw Refusal(503, "draining", "server: draining");
  reply_json(call, {{"status", "ready"}});
}

void answer_version(Service& service, Call& call) {
  reply_json(call, {{"version", service.settings.version}});
}

void answer_metrics(Service& service, Call& call) {
  call.exchange->reply({200, "text/plain; version=0.0.4; charset=utf-8", service.metrics.text(), {}});
}

void answer_settings(Service& service, Call& call) {
  const SamplerSettings& sampling = service.settings.sampling;
  reply_json(call, {{"default_generation_settings",
                     {{"temperature", sampling.temperature},
                      {"top_p", sampling.top_p},
                      {"top_k", sampling.top_k},
                      {"presence_penalty", sampling.presence_penalty},
                      {"frequency_penalty", sampling.frequency_penalty},
                      {"penalty_decay", sampling.penalty_decay},
                      {"max_tokens", service.settings.max_output},
                      {"completion_max_tokens", service.settings.max_completion}}},
                    {"chat_template", service.chat ? Json(service.chat->name()) : Json(nullptr)},
                    {"reply_mode", name_of(service.settings.reply_mode)},
                    {"batch", service.settings.scheduler.batch},
                    {"deterministic", service.settings.scheduler.batch_invariant},
                    {"model", model_card(service)}});
}

void list_models(Service& service, Call& call) {
  reply_json(call, {{"object", "list"}, {"data", Json::array({model_card(service)})}});
}

void show_model(Service& service, Call& call) {
  if (call.ids[0] != service.settings.model_name)
    throw Refusal(404, "model_not_found",
                  cat("model: expected ", service.settings.model_name, ", found another"), "model");
  reply_json(call, model_card(service));
}

}  // namespace deltasane::serve
