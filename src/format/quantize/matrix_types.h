// The stored types of the matrices of a file to write: one type, or a mixture of two.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "format/stored_type.h"

namespace deltasane {

struct MatrixTypes {
  MatrixTypes(StoredType all) : most(all), sensitive(all) {}
  MatrixTypes(StoredType usual, StoredType costly) : most(usual), sensitive(costly) {}

  StoredType most;
  // Of the output matrix and, in some layers, of the value and feed-forward down projections: their
  // rounding costs most.
  StoredType sensitive;
  friend bool operator==(const MatrixTypes&, const MatrixTypes&) = default;
};

// A type by any of its names, or a mixture: q4_k_m (q4_k, with q6_k) and q5_k_m (q5_k, with q6_k). Fails for
// a name that is unknown, or of a type that is only read.
MatrixTypes matrix_types_named(std::string_view name);
std::string name_of(const MatrixTypes& types);
uint32_t gguf_file_type(const MatrixTypes& types);  // llama.cpp's number, general.file_type

// Whether the values and the end of the feed-forward of a layer are sensitive in a mixture: in the
// first and the last eighth, and in every third layer between, as llama.cpp chooses.
bool sensitive_layer(int64_t layer, int64_t layers);

// The type for rows of `length` numbers: q8_0, or else f16, where they are no whole blocks.
StoredType type_of_rows(StoredType type, int64_t length);

}  // namespace deltasane
