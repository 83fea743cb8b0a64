// The settings of a file, each read once by its name. A setting that nobody read and that is not
// known to be of no effect is refused by its name.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "format/tensor_file.h"

namespace deltasane::gated_delta {

class Settings {
 public:
  // Those whose name begins with `prefix`, called by what follows it.
  Settings(const TensorFile& file, std::string prefix);

  bool has(std::string_view name) const;      // and is not null
  bool is_null(std::string_view name) const;  // and is there
  bool has_list(std::string_view name) const;
  int64_t integer(std::string_view name, std::optional<int64_t> otherwise = {});
  double real(std::string_view name, std::optional<double> otherwise = {});
  bool truth(std::string_view name, bool otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  std::vector<std::string> list(std::string_view name);  // empty where it is absent
  std::vector<int64_t> integers(std::string_view name);

  // Refuses any other value; an absent one or null will do.
  void expect(std::string_view name, std::initializer_list<std::string_view> allowed);
  void ignore(std::initializer_list<std::string_view> names);  // "x*": all that begin with x
  void refuse_others() const;

  std::string where(std::string_view name) const;  // for messages

 private:
  const std::string* find(std::string_view name);
  int64_t parse_integer(std::string_view name, const std::string& text) const;

  const TensorFile& file_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace deltasane::gated_delta
