// A socket job survives whoever connects at its start, and joins only those who have its secret.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <functional>
#include <thread>

#include "base/cat.h"
#include "base/io/file.h"
#include "comm/socket/connection.h"
#include "comm/socket/secret.h"
#include "comm/socket/socket_group.h"
#include "support/errors.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::comm {
namespace {

std::string digits(const Tag& tag) {
  std::string text;
  for (const std::byte byte : tag)
    for (const int shift : {4, 0}) text += "0123456789abcdef"[int(byte) >> shift & 15];
  return text;
}

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

// FIPS 180-4 examples, RFC 4231 test cases 2 and 6.
TEST(Secret, TagsAreThoseOfTheStandard) {
  EXPECT_EQ(digits(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digits(sha256(bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digits(hmac_sha256("Jefe", bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(digits(hmac_sha256(std::string(131, '\xaa'),
                               bytes("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  Tag one = sha256({}), other = one;
  EXPECT_TRUE(equal_in_constant_time(one, other));
  other[31] ^= std::byte{1};
  EXPECT_FALSE(equal_in_constant_time(one, other));
}

// What each of these does between the start of rank 0 and that of rank 1.
void expect_survived(const std::function<void(const std::string& address)>& visit) {
  const test::Scratch scratch;
  const std::string address = scratch.path() / "group";
  double sums[2] = {};
  std::thread root([&] { sums[0] = socket_group({0, 2, address, 20})->all_reduce(1.5); });
  visit(address);
  std::thread peer([&] { sums[1] = socket_group({1, 2, address, 20})->all_reduce(2.0); });
  root.join();
  peer.join();
  EXPECT_EQ(sums[0], 3.5);
  EXPECT_EQ(sums[1], 3.5);
}

TEST(Strangers, ConnectAndClose) {
  expect_survived([](const std::string& address) {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(connect_to(address, 5));
  });
}

TEST(Strangers, KeepSilent) {
  std::vector<Connection> silent;
  expect_survived([&](const std::string& address) {
    for (int i = 0; i < 20; ++i) silent.push_back(connect_to(address, 5));
  });
}

TEST(Strangers, SayHalfAGreetingOrAnother) {
  std::vector<Connection> open;
  expect_survived([&](const std::string& address) {
    for (const size_t size : {1, 7, 50, 79, 80, 4096}) {
      open.push_back(connect_to(address, 5));
      const std::string text(size, 'x');
      open.back().try_send(std::as_bytes(std::span(text)));
    }
  });
}

// As the protocol before the challenge had it, and with the magic number of today.
TEST(Strangers, SayThatTheyAreRankOne) {
  std::vector<Connection> open;
  expect_survived([&](const std::string& address) {
    for (const uint64_t magic : {0x31707267656e6173, 0x32707267656e6173}) {
      struct {
        uint64_t magic;
        int32_t rank = 1, size = 2;
        std::byte rest[64] = {};
      } greeting{magic};
      open.push_back(connect_to(address, 5));
      open.back().try_send(bytes_of(greeting));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
}

TEST(Strangers, WithoutTheSecretDoNotJoin) {
  const test::Scratch scratch;
  const std::string address = scratch.path() / "group";
  std::thread root([&] {
    EXPECT_FAULT(socket_group({0, 2, address, 1, "the secret of this job"}), Fault::device,
                 "rank 1 of 2: expected it at ");
  });
  EXPECT_FAULT(socket_group({1, 2, address, 5, "another secret than that"}), Fault::device,
               "rank 0 of 2: ");
  root.join();
}

TEST(Strangers, AreKeptOutByTheSecretBeyondThisMachine) {
  EXPECT_FAULT(socket_group({0, 2, "0.0.0.0:29999", 0.05}), Fault::usage,
               "DELTASANE_SECRET or DELTASANE_SECRET_FILE: expected a secret");
  EXPECT_TRUE(stays_on_this_machine("127.0.0.1:1"));
  EXPECT_TRUE(stays_on_this_machine("[::1]:1"));
  EXPECT_TRUE(stays_on_this_machine("/tmp/a"));
  EXPECT_FALSE(stays_on_this_machine("192.0.2.1:1"));
}

TEST(Addresses, AreChecked) {
  for (const char* bad : {"host:0", "host:65536", "host:-1", "host:http", "host:1x", "host:"})
    EXPECT_FAULT(socket_group({1, 2, bad, 0.05}), Fault::usage, "expected a port from 1 to 65535");
  for (const char* bad : {"", ":80", "host", "::1:80", "[]:80"})
    EXPECT_FAULT(socket_group({1, 2, bad, 0.05}), Fault::usage, "expected HOST:PORT");
}

// A path that is an ordinary file was deleted.
TEST(Addresses, AreNeverAFileThatIsLost) {
  const test::Scratch scratch;
  const std::string path = scratch.path() / "thesis.txt";
  replace_file(path, "years of work");
  EXPECT_FAULT(socket_group({0, 2, path, 0.05}), Fault::usage, "found another file");
  EXPECT_EQ(read_file(path), "years of work");
  const std::string socket = scratch.path() / "group";
  {
    const Listener first(socket);
    struct stat status;
    ASSERT_EQ(::lstat(socket.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    EXPECT_FAULT(Listener(socket), Fault::usage, "found a job that listens there");
    fs::remove(socket);
    replace_file(socket, "put there by somebody else");
  }
  EXPECT_EQ(read_file(socket), "put there by somebody else");
}

TEST(Secret, IsReadFromAFileThatOthersCannotRead) {
  const test::Scratch scratch;
  const std::string file = scratch.path() / "secret";
  const auto with = [&] {
    return test::run({"env", "DELTASANE_SIZE=1", "DELTASANE_RANK=0",
                      cat("DELTASANE_SECRET_FILE=", file), DELTASANE_RANKS, "sum"});
  };
  replace_file(file, "0123456789abcdef\n");
  ::chmod(file.c_str(), 0644);
  EXPECT_NE(with().output.find("only its owner may read"), std::string::npos);
  ::chmod(file.c_str(), 0600);
  EXPECT_EQ(with().exit_code, 0) << with().output;
  replace_file(file, "short\n");
  EXPECT_NE(with().output.find("at least 16 characters, found 5"), std::string::npos);
}

}  // namespace
}  // namespace deltasane::comm
