#include <zlib.h>

#include <algorithm>
#include <limits>

#include "format/codec/libraries.h"

namespace deltasane::codec {
namespace {

class Inflate {
 public:
  Inflate() {
    constexpr int either_header = 32 + MAX_WBITS;  // gzip or zlib
    if (inflateInit2(&stream_, either_header) != Z_OK)
      fail(Fault::device, "gzip: expected memory for a window, found none");
  }
  ~Inflate() { inflateEnd(&stream_); }
  Inflate(const Inflate&) = delete;
  Inflate& operator=(const Inflate&) = delete;
  z_stream* operator->() { return &stream_; }
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_{};
};

}  // namespace

const bool gzip_built = true;

void gzip_stream(std::span<const std::byte> bytes, std::string_view name, const ByteSink& sink) {
  Inflate inflater;
  std::vector<std::byte> out(size_t{1} << 16);
  const std::byte* next = bytes.data();
  size_t left = bytes.size();
  for (;;) {
    const auto given = uInt(std::min<size_t>(left, std::numeric_limits<uInt>::max()));
    inflater->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(next));
    inflater->avail_in = given;
    inflater->next_out = reinterpret_cast<Bytef*>(out.data());
    inflater->avail_out = uInt(out.size());
    const int result = inflate(inflater.get(), Z_NO_FLUSH);
    next += given - inflater->avail_in;
    left -= given - inflater->avail_in;
    if (result == Z_BUF_ERROR)
      fail(Fault::file, name, ": gzip: expected the end of the stream, found a cut file");
    if (result != Z_OK && result != Z_STREAM_END)
      fail(Fault::file, name, ": gzip: at byte ", bytes.size() - left,
           ": expected compressed bytes, found: ", inflater->msg ? inflater->msg : "damage");
    sink(std::span(out).first(out.size() - inflater->avail_out));
    if (result != Z_STREAM_END) continue;
    if (left == 0) return;
    inflateReset(inflater.get());
  }
}

}  // namespace deltasane::codec
