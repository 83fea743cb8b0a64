#include "corpus/text_files.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/io/file.h"
#include "corpus/description.h"
#include "corpus/files_below.h"
#include "corpus/shuffle.h"

namespace deltasane::corpus {
namespace {

constexpr uint64_t min_piece = 16, max_piece = uint64_t{1} << 30;

struct TextFile {
  MappedFile map;
  uint64_t first_piece;

  std::string_view text() const {
    return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
  }
};

class TextFiles final : public Source {
 public:
  enum class Order { file, shuffled };

  TextFiles(std::string_view kind, std::string_view rest, Order order) : order_(order) {
    Options options(kind, rest, Options::Subject::required);
    piece_size_ =
        options.number("piece", order == Order::shuffled ? 2048 : 4096, min_piece, max_piece);
    if (order == Order::shuffled) seed_ = options.number("seed", 1, 0, ~uint64_t{0});
    options.done();
    for (const fs::path& path : files_below(options.subject())) {
      TextFile file{MappedFile(path), pieces_};
      pieces_ += (file.text().size() + piece_size_ - 1) / piece_size_;
      if (!file.text().empty()) files_.push_back(std::move(file));
    }
    if (pieces_ == 0)
      fail(Fault::file, options.subject(), ": expected text, found an empty corpus");
    description_ = cat(kind, ":", quoted_if_needed(options.subject()), ",piece=", piece_size_);
    if (order == Order::shuffled) description_ += cat(",seed=", seed_);
  }

  Piece piece(uint64_t index) const override {
    const uint64_t number =
        order_ == Order::shuffled ? shuffled_epochs(index, pieces_, seed_) : index % pieces_;
    const auto behind = std::ranges::upper_bound(files_, number, {}, &TextFile::first_piece);
    const TextFile& file = *(behind - 1);
    const size_t begin = piece_boundary(file.text(), piece_size_, number - file.first_piece);
    const size_t end = piece_boundary(file.text(), piece_size_, number - file.first_piece + 1);
    Piece piece{std::string(file.text().substr(begin, end - begin)), {}};
    // In shuffled order an unrelated text follows: separate them.
    if (order_ == Order::shuffled && end == file.text().size())
      while (!piece.text.ends_with("\n\n")) piece.text += '\n';
    piece.learned = {{0, piece.text.size()}};
    return piece;
  }

  std::optional<uint64_t> pieces() const override { return pieces_; }
  std::string description() const override { return description_; }
  std::vector<fs::path> files() const override {
    std::vector<fs::path> all;
    for (const TextFile& file : files_) all.push_back(file.map.path());
    return all;
  }

 private:
  Order order_;
  uint64_t piece_size_ = 0, seed_ = 0, pieces_ = 0;
  std::vector<TextFile> files_;
  std::string description_;
};

}  // namespace

size_t piece_boundary(std::string_view text, size_t size, uint64_t number) {
  if (number == 0) return 0;
  const size_t from = size_t(number) * size;
  if (from >= text.size()) return text.size();
  // A boundary is before the window's last byte, so that no piece is empty.
  const std::string_view window = text.substr(0, std::min(text.size(), from + size));
  for (const std::string_view end : {"\n\n", "\n", " "}) {
    const size_t found = window.find(end, from - 1);
    if (found != window.npos && found + end.size() < window.size()) return found + end.size();
  }
  size_t at = from;  // not inside a UTF-8 character
  while (at + 1 < window.size() && (uint8_t(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

std::unique_ptr<Source> open_text(std::string_view rest) {
  return std::make_unique<TextFiles>("text", rest, TextFiles::Order::file);
}

std::unique_ptr<Source> open_prose(std::string_view rest) {
  return std::make_unique<TextFiles>("prose", rest, TextFiles::Order::shuffled);
}

}  // namespace deltasane::corpus
