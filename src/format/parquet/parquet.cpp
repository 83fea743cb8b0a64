#include "format/parquet/parquet.h"

#include <charconv>
#include <cmath>

#include "base/printable.h"
#include "format/parquet/column.h"

namespace deltasane {
namespace parquet {
namespace {

constexpr size_t max_row = size_t{1} << 28;  // bytes of JSON

// UTF-8 is not checked here: a reader of JSON does.
void append_quoted(std::string& out, std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && uint8_t(text[end]) >= 0x20 && text[end] != '"' && text[end] != '\\')
      ++end;
    out.append(text, at, end - at);
    if (end == text.size()) break;
    const char c = text[end];
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else
      ((out += "\\u00") += digits[uint8_t(c) >> 4]) += digits[c & 15];
    at = end + 1;
  }
  out += '"';
}

template <class T>
void append_number(std::string& out, T number) {
  char room[64];
  const auto written = std::to_chars(room, room + sizeof room, number);
  out.append(room, written.ptr);
}

// Puts the entries of several columns together to rows. Columns below one node must agree on where
// its lists begin and what is absent.
class RowWriter {
 public:
  RowWriter(std::span<const std::byte> file, const RowGroup& group, const Node& root,
            const ParquetFile::Wanted& wanted, const std::string& name)
      : name_(name), columns_(root.leaves) {
    for (const Node& child : root.children) {
      if (!wanted(child.element.name)) continue;
      fields_.push_back(&child);
      open_leaves(file, group, child, cat(name, ": column ", printable(child.element.name)));
    }
  }

  void write_row(std::string& out) {
    out += '{';
    for (const Node* field : fields_) write_field(out, *field, 0);
    close(out, '}');
    if (out.size() > max_row)
      fail(Fault::file, name_, ": a row: expected at most ", max_row, " bytes of JSON, found more");
  }

  void expect_end() {
    for (const auto& column : columns_)
      if (column && column->peek())
        column->reject("expected the last value with the last row, found more");
  }

 private:
  void open_leaves(std::span<const std::byte> file, const RowGroup& group, const Node& node,
                   const std::string& title) {
    for (const Node& child : node.children)
      open_leaves(file, group, child, cat(title, ".", printable(child.element.name)));
    if (!node.is_leaf()) return;
    const PhysicalType type = *node.element.type;
    if (node.element.meaning == Meaning::other || type == PhysicalType::int96 ||
        type == PhysicalType::fixed_bytes)
      fail(Fault::file, title, ": expected a text, a number or a truth value, found ",
           node.element.meaning == Meaning::other ? node.element.annotation : name_of(type));
    columns_[node.first_leaf] =
        std::make_unique<ColumnReader>(file, group.chunks[node.first_leaf], node, title);
  }

  static void close(std::string& out, char bracket) {
    if (out.back() == ',') out.pop_back();
    out += bracket;
  }

  void write_field(std::string& out, const Node& node, int repetition) {
    append_quoted(out, node.element.name);
    out += ':';
    write(out, node, repetition);
    out += ',';
  }

  ColumnReader& first_column(const Node& node) { return *columns_[node.first_leaf]; }

  // The levels of the next entry of the first column below a node, which must begin a value at
  // this level of repetition.
  Levels next_levels(const Node& node, int repetition) {
    ColumnReader& column = first_column(node);
    const std::optional<Levels> levels = column.peek();
    if (!levels) column.reject("expected a value for every row, found the end");
    if (column_repeats(node) && levels->repetition != repetition)
      column.reject("expected lists as long as in the columns beside it, found other ones");
    return *levels;
  }

  bool column_repeats(const Node& node) const {
    const Node* leaf = &node;
    while (!leaf->is_leaf()) leaf = &leaf->children.front();
    return leaf->repetition > 0;
  }

  // Steps over the entry that says that nothing is below the node, in all columns below it.
  void skip_absent(const Node& node, int repetition, int definition) {
    if (node.is_leaf()) {
      const Levels levels = next_levels(node, repetition);
      if (levels.definition != definition)
        first_column(node).reject("expected nothing, as in the columns beside it, found a value");
      return first_column(node).skip();
    }
    for (const Node& child : node.children) skip_absent(child, repetition, definition);
  }

  // `repetition`: the level at which this value begins; 0 for a new row.
  void write(std::string& out, const Node& node, int repetition) {
    if (node.element.repetition == Repetition::repeated) return write_list(out, node, repetition);
    if (node.element.repetition == Repetition::optional) {
      const Levels levels = next_levels(node, repetition);
      if (levels.definition < node.definition) {
        skip_absent(node, repetition, levels.definition);
        out += "null";
        return;
      }
    }
    write_present(out, node, repetition);
  }

  void write_present(std::string& out, const Node& node, int repetition) {
    if (node.is_leaf()) return write_value(out, node, repetition);
    const bool lists =
        node.element.meaning == Meaning::list || node.element.meaning == Meaning::map;
    if (lists && node.children.size() == 1 &&
        node.children[0].element.repetition == Repetition::repeated)
      return write_list(out, node.children[0], repetition, &node);
    out += '{';
    for (const Node& child : node.children) write_field(out, child, repetition);
    close(out, '}');
  }

  // The repeated node of a LIST is a mere wrapper of its element, in files of the present.
  static bool wraps_element(const Node& repeated, const Node* list) {
    return list && list->element.meaning == Meaning::list && repeated.children.size() == 1 &&
           repeated.element.name != "array" &&
           repeated.element.name != list->element.name + "_tuple";
  }

  void write_list(std::string& out, const Node& node, int repetition, const Node* list = nullptr) {
    const Levels levels = next_levels(node, repetition);
    if (levels.definition < node.definition) {
      skip_absent(node, repetition, levels.definition);
      out += "[]";
      return;
    }
    out += '[';
    for (bool first = true;; first = false) {
      const int begins = first ? repetition : node.repetition;
      if (wraps_element(node, list))
        write(out, node.children[0], begins);
      else
        write_present(out, node, begins);
      out += ',';
      const std::optional<Levels> next = first_column(node).peek();
      if (!next || next->repetition != node.repetition) break;
      if (out.size() > max_row)
        first_column(node).reject("expected rows of at most ", max_row, " bytes, found more");
    }
    close(out, ']');
  }

  void write_value(std::string& out, const Node& leaf, int repetition) {
    ColumnReader& column = first_column(leaf);
    const Levels levels = next_levels(leaf, repetition);
    if (levels.definition != leaf.definition)
      column.reject("expected a value, as in the columns beside it, found nothing");
    const Value value = column.take();
    switch (*leaf.element.type) {
      case PhysicalType::boolean:
        out += value.integer ? "true" : "false";
        break;
      case PhysicalType::int32:
        if (leaf.element.meaning == Meaning::unsigned_integer)
          append_number(out, uint32_t(value.integer));
        else
          append_number(out, value.integer);
        break;
      case PhysicalType::int64:
        if (leaf.element.meaning == Meaning::unsigned_integer)
          append_number(out, uint64_t(value.integer));
        else
          append_number(out, value.integer);
        break;
      case PhysicalType::real32:
      case PhysicalType::real64:
        if (std::isfinite(value.real))
          append_number(out, value.real);
        else
          out += "null";
        break;
      case PhysicalType::bytes:
        append_quoted(out, value.text);
        break;
      case PhysicalType::int96:
      case PhysicalType::fixed_bytes:
        column.reject("expected a type that is read, found ", name_of(*leaf.element.type));
    }
  }

  const std::string& name_;
  std::vector<const Node*> fields_;
  std::vector<std::unique_ptr<ColumnReader>> columns_;  // by leaf; null: not wanted
};

}  // namespace
}  // namespace parquet

ParquetFile::ParquetFile(std::span<const std::byte> bytes, std::string name)
    : bytes_(bytes),
      name_(std::move(name)),
      metadata_(parquet::read_metadata(bytes, name_)),
      root_(parquet::make_schema(std::move(metadata_.schema), name_)) {
  for (const parquet::RowGroup& group : metadata_.groups)
    if (group.chunks.size() != root_.leaves)
      fail(Fault::file, name_, ": expected ", root_.leaves, " columns in a row group, found ",
           group.chunks.size());
}

ParquetFile ParquetFile::open(const fs::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  ParquetFile opened(file->bytes(), path.string());
  opened.file_ = file;
  return opened;
}

std::vector<std::string> ParquetFile::columns() const {
  std::vector<std::string> names;
  for (const parquet::Node& child : root_.children) names.push_back(child.element.name);
  return names;
}

bool ParquetFile::has_checksums() const {
  for (const parquet::RowGroup& group : metadata_.groups)
    for (const parquet::ColumnChunk& chunk : group.chunks) {
      ByteReader in(bytes_.first(chunk.begin + chunk.size), name_, chunk.begin);
      if (chunk.entries > 0 && !parquet::read_page_header(in).checksum) return false;
    }
  return true;
}

void ParquetFile::read_group(size_t group, const Wanted& wanted, const RowVisitor& visit) const {
  const parquet::RowGroup& chosen = metadata_.groups.at(group);
  parquet::RowWriter writer(bytes_, chosen, root_, wanted, name_);
  std::string row;
  for (uint64_t i = 0; i < chosen.rows; ++i) {
    row.clear();
    writer.write_row(row);
    visit(row);
  }
  writer.expect_end();
}

}  // namespace deltasane
