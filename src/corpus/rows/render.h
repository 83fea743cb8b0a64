// One row of a data set, a JSON object, as a piece of text.
//
//   recognised   by its columns, the first of these that are all there:
//                  conversations [{from, value}], messages [{role, content}]  (with system)
//                  prompt and response, or completion
//                  instruction and output, with input
//                  question and solution, or answer
//                  text, as it is
//                A conversation is written by text/chat/world_chat.h; its answers are learned.
//   template     "User: {question}\n\nAssistant: {answer}\n\n": corpus/rows/jsonl.h
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

// Why a row is not used.
enum class Drop : uint8_t {
  not_utf8,
  not_an_object,
  too_large,        // more than 64 MiB of JSON
  unknown_columns,  // none of the ones above
  not_text,         // a column or message of another type, or null
  unknown_role,
  empty,      // a message without text
  no_answer,  // a conversation in which the assistant says nothing
  too_long,   // more tokens than wanted
};
constexpr int drop_count = 9;
std::string_view name_of(Drop drop);  // "not_utf8"

struct RenderedRow {
  Piece piece;
  std::optional<Drop> dropped;
  std::string found;  // where it is dropped: "expected X, found Y"
};

class RowRenderer {
 public:
  virtual ~RowRenderer() = default;
  virtual RenderedRow render(std::string_view row) const = 0;
  // Whether a column can matter: others need not be read.
  virtual bool wants(std::string_view column) const = 0;
  // Renderers of one identity give the same pieces.
  virtual std::string identity() const = 0;
};

enum class LearnedPart { last_field, all };

std::unique_ptr<RowRenderer> recognising_renderer();
// Fails where the template is not one. It ends in a line break.
std::unique_ptr<RowRenderer> template_renderer(const std::string& text, LearnedPart learned);

}  // namespace deltasane::corpus
