#include "comm/socket_group.h"

#include <algorithm>

#include "base/error.h"
#include "base/timing.h"
#include "comm/connection.h"

namespace deltasane::comm {
namespace {

constexpr uint64_t greeting = 0x31707267656e6173;  // of this way to talk

struct Hello {
  uint64_t greeting;
  int32_t rank, size;
};

enum class What : uint64_t { sum, gather, broadcast };

// What a process is about to do. It is sent ahead, so that processes that have come apart are told.
struct Call {
  What what;
  uint64_t bytes;
  friend bool operator==(const Call&, const Call&) = default;
};

class SocketGroup : public Group {
 public:
  explicit SocketGroup(const SocketPlace& place) : place_(place) {
    if (place.rank == 0)
      welcome();
    else
      introduce();
  }

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }

  void begin_sum(std::span<float> numbers) override { begun_.push_back(numbers); }
  void finish_sums() override {
    for (const std::span<float> numbers : begun_) add_up(numbers);
    begun_.clear();
  }
  double sum(double number) override {
    add_up(std::span(&number, 1));
    return number;
  }
  std::vector<uint64_t> gather(uint64_t number) override {
    std::vector<uint64_t> all(size_t(size()), number);
    const auto bytes = std::as_writable_bytes(std::span(all));
    begin_call({What::gather, sizeof number});
    if (rank() == 0) {
      for (size_t other = 1; other < all.size(); ++other)
        others_[other - 1].receive(bytes_of(all[other]));
      for (Connection& other : others_) other.send(bytes);
    } else {
      others_[0].send(bytes_of(number));
      others_[0].receive(bytes);
    }
    return all;
  }
  void broadcast(std::span<std::byte> bytes) override {
    begin_call({What::broadcast, bytes.size()});
    if (rank() == 0)
      for (Connection& other : others_) other.send(bytes);
    else
      others_[0].receive(bytes);
  }
  void expect_others() override {
    for (const Connection& other : others_) other.expect_open();
  }

 private:
  std::string name_of(int rank) const { return cat("rank ", rank, " of ", size()); }

  // Rank 0 waits for all others.
  void welcome() {
    Listener listener(place_.address);
    others_.resize(size_t(size()) - 1);
    const double until = seconds_now() + place_.patience;
    for (int missing = size() - 1; missing > 0;) {
      Connection made = listener.accept(until - seconds_now());
      if (!made) {
        const auto absent =
            std::ranges::find_if(others_, [](const Connection& one) { return !one; });
        fail(Fault::device, name_of(int(absent - others_.begin()) + 1), ": expected it at ",
             place_.address, " within ", place_.patience,
             " s, found nobody; start all processes with the same DELTASANE_SIZE and "
             "DELTASANE_ADDRESS");
      }
      missing -= take_in(std::move(made));
    }
    uint64_t answer = greeting;
    for (Connection& other : others_) other.send(bytes_of(answer));
  }

  // Whether it is one of this job.
  bool take_in(Connection made) {
    Hello hello{};
    made.wait_at_most(place_.patience);
    made.receive(bytes_of(hello));
    made.wait_at_most(0);
    if (hello.greeting != greeting || hello.rank < 1) return false;
    if (hello.size != size())
      fail(Fault::usage, "DELTASANE_SIZE: expected ", size(), " on every process, found ",
           hello.size, " on rank ", hello.rank);
    if (hello.rank >= size()) return false;
    Connection& place = others_[size_t(hello.rank) - 1];
    if (place)
      fail(Fault::usage, "DELTASANE_RANK: expected another on every process, found ", hello.rank,
           " twice");
    made.name_other(name_of(hello.rank));
    place = std::move(made);
    return true;
  }

  void introduce() {
    Connection made = connect_to(place_.address, place_.patience);
    if (!made)
      fail(Fault::device, name_of(0), ": expected it at ", place_.address, " within ",
           place_.patience, " s, found nobody; start it with DELTASANE_RANK=0");
    made.name_other(name_of(0));
    Hello hello{greeting, rank(), size()};
    made.send(bytes_of(hello));
    uint64_t answer = 0;
    made.receive(bytes_of(answer));
    if (answer != greeting)
      fail(Fault::device, name_of(0), ": expected the answer of this program at ", place_.address,
           ", found another's");
    others_.push_back(std::move(made));
  }

  void begin_call(Call call) {
    if (rank() != 0) return others_[0].send(bytes_of(call));
    for (size_t i = 0; i < others_.size(); ++i) {
      Call other{};
      others_[i].receive(bytes_of(other));
      if (other != call)
        fail(Fault::device, name_of(int(i) + 1), ": expected call ", uint64_t(call.what), " with ",
             call.bytes, " bytes as on rank 0, found call ", uint64_t(other.what), " with ",
             other.bytes, " bytes; processes of one job do the same");
    }
  }

  // Some at a time: nobody sends more than the others are about to take.
  template <class T>
  void add_up(std::span<T> numbers) {
    constexpr size_t together = size_t{1} << 18;
    begin_call({What::sum, numbers.size_bytes()});
    std::vector<T> theirs(rank() == 0 ? std::min(together, numbers.size()) : 0);
    for (size_t at = 0; at < numbers.size(); at += together) {
      const auto part = numbers.subspan(at, std::min(together, numbers.size() - at));
      const auto bytes = std::as_writable_bytes(part);
      if (rank() != 0) {
        others_[0].send(bytes);
        others_[0].receive(bytes);
        continue;
      }
      for (Connection& other : others_) {
        other.receive(std::as_writable_bytes(std::span(theirs)).first(bytes.size()));
        for (size_t i = 0; i < part.size(); ++i) part[i] += theirs[i];
      }
      for (Connection& other : others_) other.send(bytes);
    }
  }

  SocketPlace place_;
  std::vector<Connection> others_;  // on rank 0 all others by rank, elsewhere rank 0 alone
  std::vector<std::span<float>> begun_;
};

}  // namespace

std::unique_ptr<Group> socket_group(const SocketPlace& place) {
  require(place.size > 1 && place.rank >= 0 && place.rank < place.size, "a rank is below the size");
  return std::make_unique<SocketGroup>(place);
}

}  // namespace deltasane::comm
