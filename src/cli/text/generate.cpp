#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/timing.h"
#include "cli/command.h"
#include "cli/counted.h"
#include "cli/number_range.h"
#include "cli/open_model.h"
#include "cli/output_file.h"
#include "cli/terminal/interrupt.h"
#include "cli/text/chat_flags.h"
#include "cli/text/input_text.h"
#include "cli/text/sampling_flags.h"
#include "cli/version.h"
#include "infer/engine/engine.h"
#include "text/utf8.h"

namespace deltasane::cli {
namespace {

struct GenerateOptions {
  ModelFlags model;
  SamplingFlags sampling;
  const CLI::Option* prompt_flag = nullptr;
  std::string prompt, prompt_file, input, state_in, state_out;
  std::vector<std::string> stops;
  int64_t tokens = 256;
  bool json = false, other_sane = false, special = false, as_chat = false;
  ChatFlags chat;
};

std::string prompt_of(const GenerateOptions& options) {
  const bool has_prompt = options.prompt_flag->count() > 0;
  const int given = has_prompt + !options.prompt_file.empty() + !options.input.empty();
  if (given > 1)
    fail(Fault::usage, "generate: expected one of --prompt, --prompt-file and -, found ",
         given == 2 ? "two" : "three");
  const bool is_piped = given == 0 && options.state_in.empty() && has_piped_input();
  const bool is_input = is_piped || !options.input.empty() || options.prompt == "-";
  const std::string text = is_input                      ? input_text("-")
                           : options.prompt_file.empty() ? options.prompt
                                                         : input_text(options.prompt_file);
  if (!valid_utf8(text)) fail(Fault::file, "prompt: expected UTF-8 text, found other bytes");
  if (text.empty() && options.state_in.empty())
    fail(Fault::usage, "generate: expected --prompt, --prompt-file, --state-in or text on standard input, found ",
         given > 0 || is_piped ? "an empty prompt" : "none");
  return text;
}

// The prompt's tokens. A state that it continues from was read before: then no document begins.
void append_prompt(const GenerateOptions& options, const std::string& prompt,
                   const Tokenizer& tokenizer, std::vector<int32_t>& ids,
                   std::vector<std::string>& stops) {
  if (options.as_chat) {
    const auto chat = options.chat.open(tokenizer);
    const Message message{Role::user, prompt};
    if (options.state_in.empty())
      chat->append_prompt({&message, 1}, options.chat.reply_mode(), tokenizer, ids);
    else
      chat->append_next_turn(prompt, options.chat.reply_mode(), tokenizer, ids);
    const std::vector<std::string> own = chat->stops();
    stops.insert(stops.end(), own.begin(), own.end());
    return;
  }
  const auto special = options.special ? SpecialTokens::recognized : SpecialTokens::as_text;
  const std::vector<int32_t> tokens = options.state_in.empty()
                                          ? tokenizer.encode_document(prompt, special)
                                          : tokenizer.encode(prompt, special);
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

constexpr int64_t state_interval = 4096;  // tokens of a prompt between states that are kept

int exit_code(const GeneratedText& text) {
  return text.ended == Ended::cancelled ? interrupted_code : 0;
}

// Interrupted before all of the prompt was read.
int keep_part_of_prompt(const GenerateOptions& options, const OpenModel& open,
                        const std::optional<SequenceState>& kept, int64_t tokens) {
  if (!kept) {
    fmt::print(stderr, "interrupted while {} were read; nothing was written\n",
               counted(tokens, "token"));
    return interrupted_code;
  }
  StateStamp stamp;
  stamp.creator = version_text().substr(0, 256);
  save_state_of(open.model, options.state_out, *kept, open.name, stamp);
  fmt::print(stderr, "interrupted while {} were read; {} has the state at position {}\n",
             counted(tokens, "token"), options.state_out, kept->position);
  return interrupted_code;
}

int generate_text(const GenerateOptions& options) {
  if (!options.as_chat && (options.chat.mode != "plain" || !options.chat.chat_template.empty()))
    fail(Fault::usage, options.chat.chat_template.empty() ? "--mode" : "--template",
         ": expected --chat with it, found none");
  expect_writable(options.state_out);
  const std::string prompt = prompt_of(options);
  OpenModel open(options.model);
  const auto tokenizer =
      open_tokenizer(options.model.tokenizer, open.model.checkpoint(), options.model.path);
  Sampler sampler(options.sampling.settings);
  TextRequest request{0, open.model.fresh_state(), {}, {}};
  if (!options.state_in.empty()) {
    SavedState saved =
        open_state(open.model, options.state_in, open.name,
                   options.other_sane ? OtherSane::accept : OtherSane::refuse);
    request.state = std::move(saved.state);
    if (saved.stamp.last_token) request.prompt.push_back(*saved.stamp.last_token);
    if (!saved.stamp.sampler.empty())
      sampler = Sampler(options.sampling.settings, SamplerState::load(saved.stamp.sampler));
  }
  const uint64_t seed = sampler.state().seed;  // that of a state's sampler goes on
  request.samplers.push_back(sampler);
  std::vector<std::string> stops = options.stops;
  append_prompt(options, prompt, *tokenizer, request.prompt, stops);
  const size_t prompt_tokens = request.prompt.size();
  if (prompt_tokens == 0)
    fail(Fault::file, options.state_in, ": this state ends after its text; give a --prompt to continue");

  foresee_states(open.model,
                 request.state.position + int64_t(prompt_tokens) + options.tokens);

  Engine engine(open.model, *tokenizer, open.cpu(),
                {.stops = stops,
                 .tokens = options.tokens,
                 .on_overflow = options.sampling.on_overflow()});
  const double begin = seconds_now();
  double read = begin;
  std::optional<GeneratedText> found;
  engine.on_reset = [](const std::string& message) { fmt::print(stderr, "{}\n", message); };
  engine.on_prompt_read = [&](uint64_t, const LogProbabilities&) { read = seconds_now(); };
  engine.on_token = [&](const WrittenToken& written) {
    if (!options.json) std::cout << written.piece << std::flush;
  };
  engine.on_end = [&](GeneratedText text) { found = std::move(text); };
  if (!options.state_out.empty())
    for (int64_t at = state_interval; at < int64_t(prompt_tokens); at += state_interval)
      request.keep_states_after.push_back(at);
  std::optional<SequenceState> kept;  // of a prompt that is being read, for --state-out
  engine.on_state_kept = [&](uint64_t, int64_t, SequenceState state) { kept = std::move(state); };
  engine.submit(std::move(request));
  count_interrupts({SIGINT, SIGTERM});
  do {
    if (interrupts() == 0) continue;
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);  // a second one ends the program
    engine.cancel();
  } while (engine.step());
  const double done = seconds_now();
  if (!found) return keep_part_of_prompt(options, open, kept, int64_t(prompt_tokens));
  if (!options.state_out.empty()) {
    StateStamp stamp;
    stamp.last_token = found->pending;
    stamp.sampler = found->sampler.state().save();
    stamp.creator = version_text().substr(0, 256);
    save_state_of(open.model, options.state_out, found->state, open.name, stamp);
  }
  const auto read_tokens = int64_t(prompt_tokens);
  if (options.json) {
    nlohmann::ordered_json json{{"prompt", prompt},
                                {"text", found->text},
                                {"prompt_tokens", prompt_tokens},
                                {"tokens", found->tokens},
                                {"ended", name_of(found->ended)},
                                {"position", found->state.position},
                                {"seed", seed}};
    if (read_tokens > 1) json["prompt_tokens_per_s"] = double(read_tokens) / (read - begin);
    if (found->tokens > 1) json["tokens_per_s"] = double(found->tokens) / (done - read);
    fmt::print("{}\n", json.dump(2));
    return exit_code(*found);
  }
  std::cout << std::endl;
  fmt::print(stderr, "\n{}, {}{}\n",
             with_rate(counted(read_tokens, "token") + " read", read_tokens, read - begin),
             with_rate(cat(found->tokens, " written"), found->tokens, done - read),
             found->ended == Ended::cancelled ? "; interrupted" : "");
  return exit_code(*found);
}

}  // namespace

const Command generate{
    "generate", "complete a prompt", [](CLI::App& app) {
      auto options = std::make_shared<GenerateOptions>();
      options->model.describe(app);
      describe_input_word(app, options->input);
      options->prompt_flag =
          app.add_option("-p,--prompt", options->prompt, "the text to complete; -: standard input");
      app.add_option("-f,--prompt-file", options->prompt_file, "a file with the text; -: standard input");
      app.add_option("-n,--tokens", options->tokens, "how many tokens to write at most")
          ->check(whole_number(0))
          ->capture_default_str();
      app.add_option("--stop", options->stops, "end before this text (may be given several times)");
      app.add_flag("--special", options->special,
                   "recognize special tokens such as <|im_start|> in the prompt");
      app.add_flag("--chat", options->as_chat,
                   "the prompt is a user's message; the answer is written by the chat template");
      options->chat.describe(app);
      app.add_option("--state-in", options->state_in,
                     "begin with this state: one that was saved, or a tuned one (.pth)");
      app.add_option("--state-out", options->state_out, "keep the state, to continue later");
      app.add_flag("--accept-other-sane", options->other_sane,
                   "take a state that was made with another SANE setting");
      options->sampling.describe(app);
      app.add_flag("--json", options->json, "print JSON");
      app.footer(
          "Examples:\n"
          "  deltasane generate model.gguf --prompt 'The Eiffel tower is in the city of'\n"
          "  deltasane generate model.pth -f book.txt -n 0 --state-out book.state\n"
          "  grep -v '^#' notes | deltasane generate model.gguf - -n 100\n"
          "  deltasane generate model.pth --state-in book.state --prompt 'In short,'\n"
          "  deltasane generate model.pth --state-in tuned.pth --prompt 'User: hi'");
      return [options] { return generate_text(*options); };
    }};

}  // namespace deltasane::cli
