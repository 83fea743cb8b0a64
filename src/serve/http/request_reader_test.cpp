#include "serve/http/request_reader.h"

#include <gtest/gtest.h>

namespace deltasane::serve {
namespace {

struct Read {
  int status = 0;  // of a refusal; 0: none
  std::vector<HttpRequest> requests;
};

// Feeds the bytes in pieces of a length, as a connection does.
Read read_all(std::string_view bytes, size_t length, const HttpLimits& limits = {}) {
  Read found;
  std::string held;
  RequestReader reader(limits);
  bool is_limited = false;
  try {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(length, bytes.size()))) {
      held += bytes.substr(0, length);
      while (!held.empty()) {
        const size_t used = reader.feed(held);
        held.erase(0, used);
        if (reader.has_head() && !is_limited) {
          is_limited = true;
          reader.set_body_limit(limits.body_bytes);
        } else if (used == 0) {
          break;
        }
        if (!reader.is_done()) continue;
        found.requests.push_back(reader.take_request());
        std::destroy_at(&reader);
        std::construct_at(&reader, limits);
        is_limited = false;
      }
    }
  } catch (const Refusal& refusal) {
    found.status = refusal.status;
  }
  return found;
}

TEST(RequestReader, ReadsRequestsHoweverTheyAreCut) {
  const std::string bytes =
      "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nX-Y: z\r\n\r\nhello"
      "GET /c%20d HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /e HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"
      "GET /f HTTP/1.0\r\n\r\n";
  for (const size_t length : {size_t{1}, size_t{2}, size_t{7}, size_t{64}, bytes.size()}) {
    const Read found = read_all(bytes, length);
    EXPECT_EQ(found.status, 0);
    ASSERT_EQ(found.requests.size(), 4u) << length;
    EXPECT_EQ(found.requests[0].path, "/a");
    EXPECT_EQ(found.requests[0].query, "b");
    EXPECT_EQ(found.requests[0].body, "hello");
    EXPECT_EQ(found.requests[0].header("x-y"), "z");
    EXPECT_EQ(found.requests[1].path, "/c d");
    EXPECT_EQ(found.requests[2].body, "abc0123456789");
    EXPECT_EQ(found.requests[2].header("trailer"), "");
    EXPECT_EQ(found.requests[3].path, "/f");
  }
}

TEST(RequestReader, RefusesBadChunksAndLongHeads) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* const chunk :
       {"-2\r\nab\r\n", "+2\r\nab\r\n", "0x2\r\nab\r\n", "zz\r\n", "\r\n\r\n",
        "3\r\nabcd\r\n", "1;a\nb\r\n", "1\n", "2\r\nabX\r\n0\r\n\r\n", " 2\r\nab\r\n"})
    for (const size_t length : {size_t{1}, size_t{1000}})
      EXPECT_EQ(read_all(head + chunk, length).status, 400) << chunk << length;
  for (const char* const size : {"ffffffffffffffff\r\n", "ffffffffffffffff1\r\n", "800001\r\n"})
    EXPECT_EQ(read_all(head + size, 1000).status, 413);
  EXPECT_EQ(read_all(head + "1;" + std::string(5000, 'a'), 1000).status, 400);
  EXPECT_EQ(read_all(head + "0\r\n" + std::string(20, 'a') + "\n\r\n", 1000).status, 400);
  const std::string line = "GET / HTTP/1.1\r\nHost: x\r\nX: ";
  EXPECT_EQ(read_all(line + std::string(20000, 'a'), 1000).status, 431);
  EXPECT_EQ(read_all(std::string(20000, 'a'), 7).status, 431);
  EXPECT_EQ(read_all("GET / HTTP/1.1\nHost: x\n\n", 1000).status, 400);
  EXPECT_EQ(read_all("GET / HTTP/1.1\nHost: x\n\n", 1).status, 400);
  EXPECT_EQ(read_all("GET / HTTP/1.1\r\nHost: x\r\nExpect: a\r\n\r\n", 1).status, 417);
}

TEST(RequestReader, RefusesLargeBodiesBeforeTheyAreRead) {
  HttpLimits limits;
  limits.body_bytes = 10;
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(read_all(head + "Content-Length: 11\r\n\r\n", 1000, limits).status, 413);
  EXPECT_EQ(read_all(head + "Content-Length: 10\r\n\r\n0123456789", 3, limits).requests.size(), 1u);
  const std::string chunked = head + "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(read_all(chunked + "b\r\n", 1000, limits).status, 413);
  EXPECT_EQ(read_all(chunked + "6\r\nabcdef\r\n6\r\nabcdef\r\n0\r\n\r\n", 1000, limits).status, 413);
}

}  // namespace
}  // namespace deltasane::serve
