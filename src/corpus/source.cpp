#include "corpus/source.h"

#include <xxhash.h>

#include <algorithm>
#include <iterator>

#include "base/io/file_digest.h"
#include "corpus/description.h"
#include "corpus/indexed.h"
#include "corpus/rows/jsonl.h"
#include "corpus/math/chat.h"
#include "corpus/mixture.h"
#include "corpus/rows/row_source.h"
#include "corpus/text_files.h"
#include "corpus/token_array.h"

namespace deltasane::corpus {
namespace {

struct Kind {
  std::string_view name;
  std::unique_ptr<Source> (*open)(std::string_view rest, const OpeningProgress& progress);
};

// A kind that opens at once.
template <std::unique_ptr<Source> (*open)(std::string_view)>
std::unique_ptr<Source> at_once(std::string_view rest, const OpeningProgress&) {
  return open(rest);
}

constexpr Kind kinds[] = {{"math-chat", at_once<open_math_chat>},
                          {"prose", at_once<open_prose>},
                          {"text", at_once<open_text>},
                          {"rows", open_rows},
                          {"jsonl", open_jsonl},
                          {"npy", at_once<open_token_array>},
                          {"binidx", at_once<open_indexed>},
                          {"mixed", open_mixture}};

}  // namespace

std::unique_ptr<Source> open_source(std::string_view description, const OpeningProgress& progress) {
  const auto [name, rest] = split_kind(description);
  const auto kind = std::ranges::find(kinds, name, &Kind::name);
  if (kind != std::end(kinds)) return kind->open(rest, progress);
  std::vector<std::string_view> known;
  for (const Kind& each : kinds) known.push_back(each.name);
  fail_unknown("corpus", name, known);
}

uint64_t content_digest(const Source& source) {
  uint64_t digest = 0;
  for (const Source* const part : source.parts())
    for (const fs::path& file : part->files()) {
      const uint64_t one = file_digest(file);
      digest = XXH3_64bits_withSeed(&one, sizeof one, digest);
    }
  return digest;
}

}  // namespace deltasane::corpus
