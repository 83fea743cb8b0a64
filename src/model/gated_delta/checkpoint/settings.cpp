#include "model/gated_delta/checkpoint/settings.h"

#include <algorithm>
#include <charconv>

#include "base/printable.h"

namespace deltasane::gated_delta {

Settings::Settings(const TensorFile& file, std::string prefix)
    : file_(file), prefix_(std::move(prefix)) {}

std::string Settings::where(std::string_view name) const {
  return cat(file_.path(), ": ", prefix_, name);
}

const std::string* Settings::find(std::string_view name) {
  known_.emplace(name);
  const auto found = file_.metadata().find(cat(prefix_, name));
  return found == file_.metadata().end() || found->second == "null" ? nullptr : &found->second;
}

bool Settings::has(std::string_view name) const {
  const auto found = file_.metadata().find(cat(prefix_, name));
  return found != file_.metadata().end() && found->second != "null";
}

bool Settings::is_null(std::string_view name) const {
  const auto found = file_.metadata().find(cat(prefix_, name));
  return found != file_.metadata().end() && found->second == "null";
}

bool Settings::has_list(std::string_view name) const {
  return file_.lists().contains(cat(prefix_, name));
}

int64_t Settings::parse_integer(std::string_view name, const std::string& text) const {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(Fault::file, where(name), ": expected a whole number, found ", printable(text));
  return number;
}

int64_t Settings::integer(std::string_view name, std::optional<int64_t> otherwise) {
  const std::string* const found = find(name);
  if (found) return parse_integer(name, *found);
  if (!otherwise) fail(Fault::file, where(name), ": expected a whole number, found none");
  return *otherwise;
}

double Settings::real(std::string_view name, std::optional<double> otherwise) {
  const std::string* const found = find(name);
  if (!found && !otherwise) fail(Fault::file, where(name), ": expected a number, found none");
  if (!found) return *otherwise;
  double number = 0;
  const auto [end, error] = std::from_chars(found->data(), found->data() + found->size(), number);
  if (error != std::errc() || end != found->data() + found->size())
    fail(Fault::file, where(name), ": expected a number, found ", printable(*found));
  return number;
}

bool Settings::truth(std::string_view name, bool otherwise) {
  const std::string* const found = find(name);
  if (!found) return otherwise;
  if (*found != "true" && *found != "false")
    fail(Fault::file, where(name), ": expected true or false, found ", printable(*found));
  return *found == "true";
}

std::string Settings::text(std::string_view name, std::string_view otherwise) {
  const std::string* const found = find(name);
  return found ? *found : std::string(otherwise);
}

std::vector<std::string> Settings::list(std::string_view name) {
  const std::string* const first = find(name);  // or what is no list
  const auto found = file_.lists().find(cat(prefix_, name));
  if (found != file_.lists().end()) return found->second;
  if (first) fail(Fault::file, where(name), ": expected a list, found ", printable(*first));
  return {};
}

std::vector<int64_t> Settings::integers(std::string_view name) {
  std::vector<int64_t> numbers;
  for (const std::string& element : list(name)) numbers.push_back(parse_integer(name, element));
  return numbers;
}

void Settings::expect(std::string_view name, std::initializer_list<std::string_view> allowed) {
  const std::string* const found = find(name);
  if (!found || std::ranges::find(allowed, *found) != allowed.end()) return;
  std::string all;
  for (const std::string_view one : allowed) all += cat(all.empty() ? "" : " or ", one);
  fail(Fault::file, where(name), ": expected ", all.empty() ? "null" : all, ", found ", printable(*found),
       ", which is not supported");
}

void Settings::ignore(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

void Settings::refuse_others() const {
  const auto is_known = [&](std::string_view name) {
    if (known_.contains(name)) return true;
    return std::ranges::any_of(known_, [&](const std::string& one) {
      return one.ends_with('*') &&
             name.starts_with(std::string_view(one).substr(0, one.size() - 1));
    });
  };
  for (const auto& [key, value] : file_.metadata())
    if (key.starts_with(prefix_) && value != "null" && !is_known(key.substr(prefix_.size())))
      fail(Fault::file, file_.path(), ": ", printable(key), " = ", printable(value),
           ": expected no setting of this name: what it changes is not known");
}

}  // namespace deltasane::gated_delta
