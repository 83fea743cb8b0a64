// How a conversation becomes the tokens that a model was trained on.
//
// A template is pieces of text and special tokens. What users and models wrote is text alone: the
// name of a special token in it stays letters, so that nobody can forge a turn.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace deltasane {

enum class Role { system, user, assistant };

struct Message {
  Role role;
  std::string text;
  // Of an answer: what was thought before it, and the calls of functions after it, as the model
  // writes them (ToolFormat).
  std::string thoughts{}, calls{};
};

// How a model that was trained with a template calls functions. Their results are a message of the
// user's.
enum class ToolFormat {
  none,
  fenced_json,        // ```json\n{"name":NAME,"arguments":{...}}\n```
  tagged_json,        // <tool_call>\n{"name": NAME, "arguments": {...}}\n</tool_call>
  tagged_parameters,  // <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n...
};
inline constexpr std::string_view tool_result_begin = "<tool_response>",
                                  tool_result_end = "</tool_response>";  // of the tagged formats

// How the answer begins.
enum class ReplyMode {
  plain,       // as the template or the model likes
  think,       // with thoughts
  skip_think,  // with thoughts that are already over
};

std::string_view name_of(ReplyMode mode);           // "plain", "think", "fast-think"
ReplyMode reply_mode_named(std::string_view name);  // anything else fails

struct PromptPiece {
  std::string text;
  bool special = false;  // the name of a special token
  bool operator==(const PromptPiece&) const = default;
};
using ChatPrompt = std::vector<PromptPiece>;

// An answer as it stands in a history: \r\n becomes \n, thoughts up to the last </think> and space
// at both ends go, empty lines stay.
std::string clean_answer(std::string_view text);

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  virtual std::string_view name() const = 0;
  // The prompt for the next answer in a conversation. The last message must be the user's.
  virtual ChatPrompt prompt(std::span<const Message> messages, ReplyMode mode) const = 0;
  // The prompt that continues where the state already holds the conversation, up to the last letter
  // of an answer that was not followed by anything.
  virtual ChatPrompt next_turn(std::string_view user, ReplyMode mode) const = 0;
  // What the prompt has of the answer already.
  virtual std::string_view reply_beginning(ReplyMode mode) const = 0;
  // The mode in which an answer begins with its first letter: for answers that keep to a grammar.
  virtual ReplyMode direct_mode() const { return ReplyMode::plain; }
  virtual ToolFormat tools() const { return ToolFormat::none; }
  // Texts that end an answer, beside the tokens that end a text.
  virtual std::vector<std::string> stops() const { return {}; }

  // The tokens of a prompt that begins a document, and of one that continues. Fails if the tokenizer
  // has no such special token.
  void append_prompt(std::span<const Message> messages, ReplyMode mode, const Tokenizer& tokenizer,
                     std::vector<int32_t>& ids) const;
  void append_next_turn(std::string_view user, ReplyMode mode, const Tokenizer& tokenizer,
                        std::vector<int32_t>& ids) const;
};

const ChatTemplate& world_template();

inline constexpr std::string_view chat_template_names = "world, chatml or chatml-think";

// By its name; any other fails.
//   world         System: S\n\nUser: U\n\nAssistant: A (world_chat.h)
//   chatml        <|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n (chatml.h)
//   chatml-think  the same, and answers begin with thoughts
std::unique_ptr<ChatTemplate> chat_template_named(std::string_view name);

// The template that came with a tokenizer, recognized by its features; the World template for
// tokenizers of bytes and of World. Null: there is none, or it is not known.
std::unique_ptr<ChatTemplate> chat_template_of(const Tokenizer& tokenizer);

}  // namespace deltasane
