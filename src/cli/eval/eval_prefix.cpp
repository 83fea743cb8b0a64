#include "cli/eval/eval_prefix.h"

#include <fmt/format.h>
#include <xxhash.h>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/io/file_lock.h"
#include "base/io/folder.h"
#include "base/timing.h"
#include "cli/version.h"
#include "corpus/source.h"
#include "infer/engine/sequence.h"

namespace deltasane::cli {
namespace {

constexpr int64_t prefix_block = 8192;        // tokens; a multiple of the model's own blocks
constexpr double seconds_between_saves = 60;  // of a long prefix

// Reads on from where the sequence stands. The stream's tokens before that are made and skipped.
void read_prefix(Sequence& sequence, corpus::TokenStream& stream, int64_t tokens,
                 const std::function<void()>& save) {
  std::vector<int32_t> block;
  const auto next = [&](int64_t from) {
    block.resize(size_t(std::min(tokens - from, prefix_block)));
    stream.read(block);
  };
  for (int64_t skipped = 0; skipped < sequence.state().position; skipped += prefix_block)
    next(skipped);
  double saved = seconds_now();
  while (sequence.state().position < tokens) {
    next(sequence.state().position);
    sequence.read(block);
    if (seconds_now() - saved < seconds_between_saves) continue;
    save();
    saved = seconds_now();
    fmt::print(stderr, "prefix: {} of {} tokens\n", sequence.state().position, tokens);
  }
}

}  // namespace

void PrefixFlags::describe(CLI::App& app) {
  app.add_option("--prefix-state", state, "every problem is asked from this state: one that was saved, or a tuned one (.pth)");
  app.add_option("--prefix-corpus", corpus, "or after tokens of this corpus, such as math-chat");
  app.add_option("--prefix-tokens", tokens, "how many of them");
  app.add_flag("--accept-other-sane", other_sane,
               "take a state that was made with another SANE setting");
}

eval::Prefix PrefixFlags::open(OpenModel& open, const Tokenizer& tokenizer, const fs::path& out,
                               OnOverflow on_overflow) const {
  if (!state.empty() && !corpus.empty())
    fail(Fault::usage, "eval: expected one of --prefix-state and --prefix-corpus, found both");
  if (corpus.empty() != (tokens == 0) || tokens < 0)
    fail(Fault::usage, "--prefix-corpus: expected it with --prefix-tokens above 0, found ",
         corpus.empty() ? "no corpus" : cat(tokens, " tokens"));
  if (state.empty() && corpus.empty()) return {open.model.fresh_state(), {}, ""};

  Sequence sequence(open.model, open.cpu(), on_overflow);
  sequence.on_reset = [](const std::string& message) { fmt::print(stderr, "{}\n", message); };
  const OtherSane others = other_sane ? OtherSane::accept : OtherSane::refuse;
  eval::Prefix prefix;
  if (!state.empty()) {
    const StateStamp stamp = sequence.load(state, open.name, others);
    prefix.description = cat("state at ", sequence.state().position, " tokens");
    if (stamp.last_token) prefix.pending.push_back(*stamp.last_token);
  } else {
    const auto source = corpus::open_source(corpus);
    prefix.description =
        cat(tokens, " tokens of ", source->description(), ", overflow ", name_of(on_overflow));
    const uint64_t name = XXH64(prefix.description.data(), prefix.description.size(), 0);
    const fs::path file = out / fmt::format("prefix-{:016x}.state", name);
    create_folder(out);
    const auto save = [&] {
      StateStamp stamp;
      stamp.creator = version_text().substr(0, 256);
      sequence.save(file, open.name, stamp);
    };
    // The first process that comes reads it; the others wait, and find it read.
    const FileLock one_at_a_time(fs::path(file) += ".lock", [&] {
      fmt::print(stderr, "prefix: waiting for another process that reads it\n");
    });
    if (fs::exists(file)) sequence.load(file, open.name, OtherSane::refuse);
    const bool whole = sequence.state().position == tokens;
    corpus::TokenStream words(*source, tokenizer);
    if (!whole) {
      fmt::print(stderr, "prefix: reading {}\n", prefix.description);
      read_prefix(sequence, words, tokens, save);
      save();
    }
  }
  prefix.state = sequence.state().clone();
  return prefix;
}

}  // namespace deltasane::cli
