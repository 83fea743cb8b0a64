// Rows of data sets (corpus/rows/row_source.h), formatted by a template; chat by default.
//
//   jsonl:PATH,template=TEMPLATE,order=file,seed=1,learned=last
//   TEMPLATE: "User: {question}\n\nAssistant: {answer}\n\n"
//
// {name} is a field of the row, a string or a number; {{ and }} are literal braces. A template that
// does not end in a line break gets an empty line, so that pieces are separated. Learned is the
// last field, with the white space before it and all that follows; with learned=all, or if there is
// only one field, everything. Every row must fit, and is checked when the source is opened, so that a
// bad one is found before training starts.
#pragma once

#include <memory>
#include <string_view>

#include "corpus/source.h"

namespace deltasane::corpus {

std::unique_ptr<Source> open_jsonl(std::string_view rest, const OpeningProgress& progress);

}  // namespace deltasane::corpus
