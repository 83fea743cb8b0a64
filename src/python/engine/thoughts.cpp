#include "python/engine/thoughts.h"

#include <nanobind/stl/string.h>

#include "text/chat/thought_reader.h"

namespace deltasane::python {
namespace {

namespace nb = nanobind;

nb::tuple pieces(const ThoughtReader::Piece& piece) {
  return nb::make_tuple(piece.answer, piece.thoughts);
}

}  // namespace

void bind_thoughts(nb::module_& m) {
  nb::class_<ThoughtReader>(m, "ThoughtReader")
      .def("__init__",
           [](ThoughtReader* at, const std::string& beginning) { new (at) ThoughtReader(beginning); })
      .def("feed", [](ThoughtReader& own, const std::string& text) { return pieces(own.feed(text)); })
      .def("finish", [](ThoughtReader& own) { return pieces(own.finish()); });
}

}  // namespace deltasane::python
