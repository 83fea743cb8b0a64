// Rows of a JSON Lines file as chat, or as whatever the template says.
//
//   jsonl:PATH,template="User: {question}\n\nAssistant:
//   {answer}\n\n",order=file,seed=1,learned=last
//
// {name} is a field of the row, a text or a number; {{ and }} are braces. A template that does not
// end in a line break gets an empty line, so that pieces do not run together. Learned is the last
// field, with the white space in front of it and all that follows; or everything, if asked for or
// if there is one field only. Every row is checked when the source is opened: a bad one should not
// be found after a night of training.
#pragma once

#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_jsonl(std::string_view rest);

}  // namespace deltasane::corpus
