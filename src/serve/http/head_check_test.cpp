#include "serve/http/head_check.h"

#include <gtest/gtest.h>

namespace deltasane::serve {
namespace {

// The status that the head is refused with; 0: it is taken.
int status_of_head(std::string_view head) {
  try {
    check_head(head, {});
    return 0;
  } catch (const Refusal& refusal) {
    EXPECT_FALSE(std::string(refusal.what()).empty());
    return refusal.status;
  }
}

std::string with(std::string_view lines, std::string_view first = "POST /v1/completions HTTP/1.1") {
  return cat(first, "\r\nHost: localhost:8080\r\n", lines, "\r\n");
}

TEST(HeadCheck, TakesOrdinaryHeads) {
  EXPECT_EQ(status_of_head(with("Content-Length: 12\r\nAccept: */*\r\n")), 0);
  EXPECT_EQ(status_of_head(with("Transfer-Encoding: chunked\r\n")), 0);
  EXPECT_EQ(status_of_head(with("Transfer-Encoding: Chunked\r\n")), 0);
  EXPECT_EQ(status_of_head(with("X-Empty:\r\nX-Tab:\ta\tb \r\n")), 0);
  EXPECT_EQ(status_of_head("GET / HTTP/1.0\r\n\r\n"), 0);
  EXPECT_EQ(status_of_head("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), 0);
}

TEST(HeadCheck, RefusesWhatTwoReadersCouldTakeDifferently) {
  const std::string bad[] = {
      with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
      with("Content-Length: 5\r\nContent-Length: 5\r\n"),
      with("Content-Length: 5, 5\r\n"),
      with("Content-Length: -1\r\n"),
      with("Content-Length: +5\r\n"),
      with("Content-Length: 1e3\r\n"),
      with("Content-Length: 0x10\r\n"),
      with("Content-Length: 18446744073709551616\r\n"),
      with("Content-Length:\r\n"),
      with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
      with("X: a\r\n b\r\n"),               // obs-fold
      with("X: a\r\n\tb\r\n"),
      with("X : a\r\n"),                    // space before the colon
      with("X: a\nY: b\r\n"),               // bare LF
      with("X: a\rY: b\r\n"),
      with("no colon\r\n"),
      with(": no name\r\n"),
      with("X: a\x01\r\n"),
      with("Host: other\r\n"),              // twice
      "GET / HTTP/1.1\r\n\r\n",             // no host
      "GET / HTTP/1.1\r\nHost:\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: user@a\r\n\r\n",
      with("", "GET http://localhost/ HTTP/1.1"),
      with("", "OPTIONS * HTTP/1.1"),
      with("", "GET  / HTTP/1.1"),
      with("", "GET / HTTP/1.1 "),
      with("", "GET /a b HTTP/1.1"),
      with("", "GET /\xc3\xa4 HTTP/1.1"),
      with("", "(GET) / HTTP/1.1"),
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
      "\r\n\r\n",
  };
  for (const std::string& head : bad) EXPECT_EQ(status_of_head(head), 400) << head;
  std::string zero = with("X: ab\r\n");
  zero[zero.find("ab") + 1] = '\0';
  EXPECT_EQ(status_of_head(zero), 400);
}

TEST(HeadCheck, NamesOtherFailures) {
  EXPECT_EQ(status_of_head(with("", "GET / HTTP/2.0")), 505);
  EXPECT_EQ(status_of_head(with("", "GET / ")), 505);
  EXPECT_EQ(status_of_head(with("Transfer-Encoding: gzip, chunked\r\n")), 501);
  EXPECT_EQ(status_of_head(with("Transfer-Encoding: identity\r\n")), 501);
  std::string lines;
  for (int i = 0; i < 62; ++i) lines += cat("X-", i, ": a\r\n");
  EXPECT_EQ(status_of_head(with(lines)), 0);
  EXPECT_EQ(status_of_head(with(lines + "Y: a\r\n")), 431);
}

TEST(HeadCheck, ReadsTargets) {
  const Target target = read_target("/v1/models/a%20b?x=%00&y");
  EXPECT_EQ(target.path, "/v1/models/a b");
  EXPECT_EQ(target.query, "x=%00&y");
  for (const char* const bad :
       {"/a%00", "/a%0d%0aX: y", "/a%2fb", "/../a", "/a/..", "/a/%2e%2e/b", "/./a", "/a%", "/a%2",
        "/a%zz", "/a#b", "/a\\b", "/a%5cb", "/%ff", "/%7f"})
    EXPECT_THROW(read_target(bad), Refusal) << bad;
}

TEST(HeadCheck, ReadsHostNames) {
  EXPECT_EQ(host_name("Localhost:8080"), "localhost");
  EXPECT_EQ(host_name("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(host_name("[::1]:1"), "::1");
  EXPECT_EQ(host_name("a.example"), "a.example");
  for (const char* const bad : {"", "[::1", "[::1]8", "a:123456", "a:b", "a/b", "a,b"})
    EXPECT_EQ(host_name(bad), "") << bad;
}

}  // namespace
}  // namespace deltasane::serve
