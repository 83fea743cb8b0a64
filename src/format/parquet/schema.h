// The columns of a file as a tree, with the levels that say where values of a leaf are absent and
// where lists begin (Melnik et al., Dremel, 2010).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "format/parquet/metadata.h"

namespace deltasane::parquet {

struct Node {
  SchemaElement element;
  // Levels of a value that is there: optional and repeated nodes from the root to here.
  int definition = 0, repetition = 0;
  std::vector<Node> children;
  size_t first_leaf = 0, leaves = 0;  // below, or the leaf itself

  bool is_leaf() const { return element.type.has_value(); }
};

// The root; its children are the columns. Fails on a tree that does not fit its list of elements.
Node make_schema(std::vector<SchemaElement> elements, const std::string& name);

}  // namespace deltasane::parquet
