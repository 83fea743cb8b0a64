#include "base/io/seal.h"

#include <xxhash.h>

#include "base/error.h"
#include "base/hexadecimal.h"

namespace deltasane {
namespace {

// How an object ends, and how a seal is put before that.
struct Form {
  std::string_view end, before, after;
};
constexpr Form forms[] = {{"\n}\n", ",\n  \"xxh3\": \"", "\"\n}\n"}, {"}", ",\"xxh3\":\"", "\"}"}};

const Form* form_of(std::string_view object) {
  for (const Form& form : forms)
    if (object.ends_with(form.end)) return &form;
  return nullptr;
}

}  // namespace

std::string sealed(std::string_view object) {
  const Form* const form = form_of(object);
  require(form != nullptr, "a sealed text is a JSON object");
  const std::string_view content = object.substr(0, object.size() - form->end.size());
  return cat(content, form->before, hexadecimal(XXH3_64bits(content.data(), content.size())),
             form->after);
}

bool has_seal(std::string_view text) {
  const Form* const form = form_of(text);
  return form && text.rfind(form->before) != text.npos;
}

std::string unsealed(std::string_view text, std::string_view where) {
  if (!has_seal(text))
    fail(Fault::file, where,
         ": expected a checksum (xxh3) at the end, found none; it is damaged, "
         "was edited, or was written by a version without checksums");
  const Form& form = *form_of(text);
  std::string object = cat(text.substr(0, text.rfind(form.before)), form.end);
  if (sealed(object) != text)
    fail(Fault::file, where,
         ": expected the content of its checksum (xxh3), found other content; "
         "it is damaged or was edited");
  return object;
}

}  // namespace deltasane
