#include "house/isa_symbols.h"

#include <cxxabi.h>

#include <cstdlib>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/io/file.h"
#include "house/text.h"
#include "support/process.h"

namespace deltasane::house {

namespace {

// _ZN9deltasane6kernel3cpu3dotEPKf, also as a member, a local of a function, or its guard.
bool in_cpu_namespace(std::string_view name) {
  if (!name.starts_with("_Z")) return false;
  name.remove_prefix(2);
  if (name.starts_with("GV")) name.remove_prefix(2);
  const size_t nested = name.find_first_not_of("ZNKVRO");
  return nested != name.npos && nested > 0 &&
         name.substr(nested).starts_with("9deltasane6kernel3cpu");
}

// The unwinder's pointer to its routine: data, the same in every object.
bool is_harmless(std::string_view name) { return name.starts_with("DW.ref."); }

std::string readable(const std::string& name) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr), &std::free);
  return text ? text.get() : name;
}

std::vector<std::string> weak_symbols(std::string_view symbols) {
  std::vector<std::string> weak;
  for (const std::string_view line : lines_of(symbols)) {
    const std::vector<std::string_view> words = words_of(line);  // address kind name
    if (words.size() != 3) continue;
    if ((words[1] == "W" || words[1] == "V" || words[1] == "u") && !is_harmless(words[2]))
      weak.emplace_back(words[2]);
  }
  return weak;
}

}  // namespace

Findings check_isa_symbols(const std::vector<IsaObject>& objects) {
  Findings findings;
  std::map<std::string, const IsaObject*> first;  // where a weak symbol was seen first
  for (const IsaObject& object : objects)
    for (const std::string& name : weak_symbols(object.symbols)) {
      if (!in_cpu_namespace(name)) {
        if (object.isa != "portable")
          findings.push_back({object.path, cat("shares ", readable(name), " with every object")});
        continue;
      }
      const IsaObject& seen = *first.try_emplace(name, &object).first->second;
      if (seen.isa != object.isa)
        findings.push_back({object.path, cat("defines ", readable(name), " for ", object.isa,
                                             ", but so does ", seen.path, " for ", seen.isa)});
    }
  return findings;
}

std::vector<IsaObject> read_isa_objects(const std::string& list_file, const std::string& nm) {
  std::vector<IsaObject> objects;
  const std::string list = read_file(list_file);
  for (const std::string_view line : lines_of(list)) {
    const size_t blank = line.find(' ');
    if (blank == line.npos) continue;
    IsaObject object{std::string(line.substr(0, blank)), std::string(line.substr(blank + 1)), {}};
    const test::Outcome outcome = test::run({nm, object.path});
    if (outcome.exit_code != 0) fail(Fault::file, nm, " ", object.path, ": ", outcome.output);
    object.symbols = outcome.output;
    objects.push_back(std::move(object));
  }
  return objects;
}

}  // namespace deltasane::house
