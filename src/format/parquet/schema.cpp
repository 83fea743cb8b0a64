#include "format/parquet/schema.h"

#include "base/printable.h"

namespace deltasane::parquet {
namespace {

constexpr int max_depth = 24;

class SchemaMaker {
 public:
  SchemaMaker(std::vector<SchemaElement> elements, const std::string& name)
      : elements_(std::move(elements)), name_(name) {}

  Node make() {
    if (elements_.empty()) reject("expected columns, found none");
    elements_.front().repetition = Repetition::required;
    elements_.front().type.reset();
    Node root = node(0, 0, 0);
    if (next_ != elements_.size())
      reject(cat("expected ", next_, " columns and groups, found ", elements_.size()));
    return root;
  }

 private:
  [[noreturn]] void reject(const std::string& why) const {
    fail(Fault::file, name_, ": schema: ", why);
  }

  Node node(int depth, int definition, int repetition) {
    if (next_ == elements_.size()) reject("expected more columns, found the end");
    if (depth > max_depth)
      reject(cat("expected at most ", max_depth, " nested groups, found more"));
    Node made;
    made.element = std::move(elements_[next_++]);
    made.definition = definition + (made.element.repetition != Repetition::required);
    made.repetition = repetition + (made.element.repetition == Repetition::repeated);
    made.first_leaf = leaves_;
    const int32_t children = made.element.children;
    if (made.is_leaf() ? children != 0 : children < (depth > 0))
      reject(cat("column ", printable(made.element.name), ": expected a type or children, found ",
                 children, " children", made.is_leaf() ? " and a type" : ""));
    if (made.is_leaf()) ++leaves_;
    for (int32_t i = 0; i < children; ++i)
      made.children.push_back(node(depth + 1, made.definition, made.repetition));
    made.leaves = leaves_ - made.first_leaf;
    return made;
  }

  std::vector<SchemaElement> elements_;
  const std::string& name_;
  size_t next_ = 0, leaves_ = 0;
};

}  // namespace

Node make_schema(std::vector<SchemaElement> elements, const std::string& name) {
  return SchemaMaker(std::move(elements), name).make();
}

}  // namespace deltasane::parquet
