#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/timing.h"
#include "cli/command.h"
#include "cli/open_model.h"
#include "cli/sampling_flags.h"
#include "cli/version.h"
#include "infer/sampler.h"
#include "infer/session.h"
#include "text/text_stop.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"

namespace deltasane::cli {
namespace {

struct GenerateOptions {
  ModelFlags model;
  SamplingFlags sampling;
  std::string prompt, prompt_file, state_in, state_out;
  std::vector<std::string> stops;
  int64_t tokens = 256;
  bool json = false, other_sane = false;
};

std::string prompt_of(const GenerateOptions& options) {
  if (!options.prompt.empty() && !options.prompt_file.empty())
    fail(Fault::usage, "generate: expected one of --prompt and --prompt-file, found both");
  const std::string text =
      options.prompt_file.empty() ? options.prompt : read_file(options.prompt_file);
  if (!valid_utf8(text)) fail(Fault::file, "prompt: expected UTF-8 text, found other bytes");
  if (text.empty() && options.state_in.empty())
    fail(Fault::usage, "generate: expected --prompt, --prompt-file or --state-in, found none");
  return text;
}

int generate_text(const GenerateOptions& options) {
  const std::string prompt = prompt_of(options);
  OpenModel open(options.model);
  const auto tokenizer =
      open_tokenizer(options.model.tokenizer, open.model.checkpoint(), options.model.path);
  Session session(open.model, open.cpu(), options.sampling.on_overflow());
  session.on_reset = [](const std::string& message) { fmt::print(stderr, "{}\n", message); };
  Sampler sampler(options.sampling.settings);
  std::vector<int32_t> input;
  if (!options.state_in.empty()) {
    const StateStamp stamp = session.load(
        options.state_in, open.name, options.other_sane ? OtherSane::accept : OtherSane::refuse);
    if (stamp.last_token) input.push_back(*stamp.last_token);
    if (!stamp.sampler.empty())
      sampler = Sampler(options.sampling.settings, SamplerState::load(stamp.sampler));
  }
  tokenizer->append_encoded(prompt, input);
  if (input.empty())
    fail(Fault::file, options.state_in, ": expected a state with a pending token, or a --prompt");

  const double begin = seconds_now();
  session.read(input);
  const double read = seconds_now();
  Utf8Stream characters;
  TextStop stop(options.stops);
  std::string text, ended = "tokens";
  std::optional<int32_t> pending;
  int64_t written = 0;
  const auto show = [&](const std::string& piece) {
    text += piece;
    if (!options.json) std::cout << piece << std::flush;
  };
  while (written < options.tokens) {
    pending = pending ? session.read_and_pick(*pending, sampler)
                      : sampler.next(session.logits(), session.state().position);
    ++written;
    if (pending == tokenizer->end_of_document()) {
      ended = "end of document";
      break;
    }
    show(stop.feed(characters.feed(tokenizer->bytes_of(*pending))));
    if (stop.stopped()) {
      ended = "stop text";
      break;
    }
  }
  show(stop.feed(characters.finish()));
  show(stop.finish());
  const double done = seconds_now();
  if (!options.state_out.empty()) {
    StateStamp stamp;
    stamp.last_token = pending;
    stamp.sampler = sampler.state().save();
    stamp.creator = version_text().substr(0, 256);
    session.save(options.state_out, open.name, stamp);
  }
  const double prompt_rate = double(input.size()) / (read - begin);
  const double rate = double(written) / (done - read);
  if (options.json) {
    const nlohmann::ordered_json found{{"prompt", prompt},
                                       {"text", text},
                                       {"prompt_tokens", input.size()},
                                       {"tokens", written},
                                       {"ended", ended},
                                       {"position", session.state().position},
                                       {"prompt_tokens_per_s", prompt_rate},
                                       {"tokens_per_s", rate}};
    fmt::print("{}\n", found.dump(2));
    return 0;
  }
  std::cout << std::endl;
  fmt::print(stderr, "\n{} tokens read at {:.1f}/s, {} written at {:.1f}/s\n", input.size(),
             prompt_rate, written, rate);
  return 0;
}

}  // namespace

const Command generate{
    "generate", "go on with a text", [](CLI::App& app) {
      auto options = std::make_shared<GenerateOptions>();
      options->model.describe(app);
      app.add_option("--prompt", options->prompt, "the text to go on with");
      app.add_option("--prompt-file", options->prompt_file, "a file with the text");
      app.add_option("--tokens", options->tokens, "how many tokens to write at most")
          ->check(CLI::NonNegativeNumber)
          ->capture_default_str();
      app.add_option("--stop", options->stops, "end before this text (may be given several times)");
      app.add_option("--state-in", options->state_in, "begin with this state");
      app.add_option("--state-out", options->state_out, "keep the state, to go on later");
      app.add_flag("--accept-other-sane", options->other_sane,
                   "take a state that was made with another SANE setting");
      options->sampling.describe(app);
      app.add_flag("--json", options->json, "print JSON");
      app.footer(
          "Examples:\n"
          "  deltasane generate model.gguf --prompt 'The Eiffel tower is in the city of'\n"
          "  deltasane generate model.pth --prompt-file book.txt --tokens 0 --state-out "
          "book.state\n"
          "  deltasane generate model.pth --state-in book.state --prompt 'In short,'");
      return [options] { return generate_text(*options); };
    }};

}  // namespace deltasane::cli
