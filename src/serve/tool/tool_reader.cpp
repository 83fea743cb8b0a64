#include "serve/tool/tool_reader.h"

#include <algorithm>

#include "base/json/json_text.h"
#include "text/chat/world_chat.h"

namespace deltasane::serve {
namespace {

constexpr std::string_view space_letters = " \t\r\n";

std::string_view begin_mark(ToolFormat format) {
  return format == ToolFormat::fenced_json ? "```json" : "<tool_call>";
}

// The end of the text that may yet be dropped or be the beginning of the mark.
size_t undecided(std::string_view text, std::string_view mark) {
  size_t partial = std::min(text.size(), mark.size() - 1);
  while (partial > 0 && !mark.starts_with(text.substr(text.size() - partial))) --partial;
  const std::string_view before = text.substr(0, text.size() - partial);
  return text.size() - (before.find_last_not_of(space_letters) + 1);
}

bool skip(std::string_view& text, std::string_view part) {
  if (!text.starts_with(part)) return false;
  text.remove_prefix(part.size());
  return true;
}

// Up to the mark, which is skipped, too.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark) {
  const size_t end = text.find(mark);
  if (end == text.npos) return std::nullopt;
  const std::string_view found = text.substr(0, end);
  text.remove_prefix(end + mark.size());
  return found;
}

bool may_be(const Json& types, std::string_view type) {
  return types.is_array() ? std::ranges::find(types, Json(type)) != types.end() : types == Json(type);
}

// What stands between tags is a text where the schema says so, and JSON where it can be.
Json value_of(std::string_view text, const Json* schema) {
  const Json types = schema ? schema->value("type", Json()) : Json();
  const bool is_null = text == "null" && may_be(types, "null");
  if (!is_null && may_be(types, "string")) return std::string(text);
  Json value = parse_json<Json>(text);
  if (value.is_discarded()) return std::string(text);
  return value;
}

}  // namespace

ToolReader::ToolReader(std::shared_ptr<const ToolFields> tools) : tools_(std::move(tools)) {}

std::string_view ToolReader::end_mark(ToolFormat format) {
  return format == ToolFormat::fenced_json ? "\n```" : "</tool_call>";
}

ToolReader::Piece ToolReader::feed(std::string_view text) {
  Piece piece;
  if (tools_->tools.empty()) {
    piece.text = text;
    return piece;
  }
  held_ += text;
  const std::string_view begin = begin_mark(tools_->format), end = end_mark(tools_->format);
  for (;;) {
    if (!is_inside_) {
      if (follows_call_) held_.erase(0, std::min(held_.find_first_not_of(space_letters), held_.size()));
      const size_t at = held_.find(begin);
      const size_t known = at == held_.npos ? held_.size() - undecided(held_, begin)
                                            : std::string_view(held_).substr(0, at).find_last_not_of(
                                                  space_letters) + 1;
      if (known > 0) follows_call_ = false;
      piece.text += std::string_view(held_).substr(0, known);
      if (at == held_.npos) {
        held_.erase(0, known);
        return piece;
      }
      space_ = held_.substr(known, at - known);
      held_.erase(0, at + begin.size());
      is_inside_ = true;
    }
    const size_t at = held_.find(end);
    if (at == held_.npos) return piece;
    is_inside_ = false;
    if (auto call = call_in(std::string_view(held_).substr(0, at))) {
      piece.calls.push_back(std::move(*call));
      follows_call_ = true;
    } else {
      piece.text += cat(space_, begin, std::string_view(held_).substr(0, at), end);
      follows_call_ = false;
    }
    held_.erase(0, at + end.size());
  }
}

ToolReader::Piece ToolReader::finish() {
  Piece piece;
  if (tools_->must_call) held_.clear(), is_inside_ = false;
  if (is_inside_) piece.text = cat(space_, begin_mark(tools_->format));
  piece.text += held_;
  if (!is_inside_ && follows_call_ && trimmed(held_).empty()) piece.text.clear();
  held_.clear();
  is_inside_ = false;
  return piece;
}

std::optional<ToolCall> ToolReader::call_in(std::string_view block) const {
  auto call = tools_->format == ToolFormat::tagged_parameters ? call_in_tags(block)
                                                              : call_in_json(block);
  return call && tools_->find(call->name) ? call : std::nullopt;
}

std::optional<ToolCall> ToolReader::call_in_json(std::string_view block) const {
  const Json value = parse_json<Json>(trimmed(block));
  if (!value.is_object() || !value.contains("name") || !value["name"].is_string())
    return std::nullopt;
  Json arguments = value.value("arguments", Json::object());
  if (arguments.is_string()) arguments = parse_json<Json>(arguments.get<std::string>());
  if (!arguments.is_object()) return std::nullopt;
  return ToolCall{value["name"], std::move(arguments)};
}

std::optional<ToolCall> ToolReader::call_in_tags(std::string_view block) const {
  std::string_view rest = trimmed(block);
  if (!skip(rest, "<function=")) return std::nullopt;
  const auto name = take_until(rest, ">");
  if (!name) return std::nullopt;
  const Tool* const tool = tools_->find(*name);
  ToolCall call{std::string(*name), Json::object()};
  for (;;) {
    rest = trimmed(rest);
    if (skip(rest, "</function>")) break;
    if (!tool || !skip(rest, "<parameter=")) return std::nullopt;
    const auto key = take_until(rest, ">");
    if (key) skip(rest, "\n");
    auto value = take_until(rest, "</parameter>");
    if (!key || !value || call.arguments.contains(*key)) return std::nullopt;
    if (value->ends_with('\n')) value->remove_suffix(1);
    call.arguments[std::string(*key)] = value_of(*value, tool->parameter(std::string(*key)));
  }
  return trimmed(rest).empty() ? std::optional(std::move(call)) : std::nullopt;
}

}  // namespace deltasane::serve
