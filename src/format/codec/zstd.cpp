#include <zstd.h>

#include <memory>

#include "format/codec/libraries.h"

namespace deltasane::codec {

const bool zstd_built = true;

void zstd_stream(std::span<const std::byte> bytes, std::string_view name, const ByteSink& sink) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  if (!stream) fail(Fault::device, "zstd: expected memory for a window, found none");
  std::vector<std::byte> out(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  bool open = false;  // inside of a frame
  for (;;) {
    ZSTD_outBuffer piece{out.data(), out.size(), 0};
    const size_t before = in.pos;
    const size_t hint = ZSTD_decompressStream(stream.get(), &piece, &in);
    if (ZSTD_isError(hint))
      fail(Fault::file, name, ": zstd: at byte ", in.pos,
           ": expected compressed bytes, found: ", ZSTD_getErrorName(hint));
    sink(std::span(out).first(piece.pos));
    open = hint != 0;
    if (in.pos == in.size && piece.pos < piece.size) break;
    if (in.pos == before && piece.pos == 0) break;
  }
  if (open || in.pos != in.size)
    fail(Fault::file, name, ": zstd: expected the end of a frame, found a cut file");
}

}  // namespace deltasane::codec
