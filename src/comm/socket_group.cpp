#include "comm/socket_group.h"

#include <algorithm>

#include "base/error.h"
#include "base/timing.h"
#include "comm/connection.h"

namespace deltasane::comm {
namespace {

constexpr uint64_t protocol_magic = 0x31707267656e6173;

struct Handshake {
  uint64_t magic;
  int32_t rank, size;
};

enum class Collective : uint64_t { all_reduce, all_gather, broadcast };

// Announces the next collective, so that processes that are out of step are detected.
struct Call {
  Collective collective;
  uint64_t bytes;
  friend bool operator==(const Call&, const Call&) = default;
};

class SocketGroup : public Group {
 public:
  explicit SocketGroup(const SocketGroupSettings& settings) : settings_(settings) {
    if (settings.rank == 0)
      accept_peers();
    else
      connect_to_root();
  }

  int rank() const override { return settings_.rank; }
  int size() const override { return settings_.size; }

  void begin_all_reduce(std::span<float> numbers) override { started_.push_back(numbers); }
  void finish_all_reduces() override {
    for (const std::span<float> numbers : started_) reduce(numbers);
    started_.clear();
  }
  double all_reduce(double number) override {
    reduce(std::span(&number, 1));
    return number;
  }
  std::vector<uint64_t> all_gather(uint64_t number) override {
    std::vector<uint64_t> all(size_t(size()), number);
    const auto bytes = std::as_writable_bytes(std::span(all));
    begin_call({Collective::all_gather, sizeof number});
    if (rank() == 0) {
      for (size_t other = 1; other < all.size(); ++other)
        peers_[other - 1].receive(bytes_of(all[other]));
      for (Connection& peer : peers_) peer.send(bytes);
    } else {
      peers_[0].send(bytes_of(number));
      peers_[0].receive(bytes);
    }
    return all;
  }
  void broadcast(std::span<std::byte> bytes) override {
    begin_call({Collective::broadcast, bytes.size()});
    if (rank() == 0)
      for (Connection& peer : peers_) peer.send(bytes);
    else
      peers_[0].receive(bytes);
  }
  void check_peers() override {
    for (const Connection& peer : peers_) peer.check_open();
  }

 private:
  std::string name_of(int rank) const { return cat("rank ", rank, " of ", size()); }

  // Rank 0 waits for all others.
  void accept_peers() {
    Listener listener(settings_.address);
    peers_.resize(size_t(size()) - 1);
    const double until = seconds_now() + settings_.timeout;
    for (int missing = size() - 1; missing > 0;) {
      Connection made = listener.accept(until - seconds_now());
      if (!made) {
        const auto absent =
            std::ranges::find_if(peers_, [](const Connection& one) { return !one; });
        fail(Fault::device, name_of(int(absent - peers_.begin()) + 1), ": expected it at ",
             settings_.address, " within ", settings_.timeout,
             " s, found no process; start all processes with the same DELTASANE_SIZE and "
             "DELTASANE_ADDRESS");
      }
      missing -= add_peer(std::move(made));
    }
    uint64_t answer = protocol_magic;
    for (Connection& peer : peers_) peer.send(bytes_of(answer));
  }

  // False for a connection that is not of this job.
  bool add_peer(Connection made) {
    Handshake handshake{};
    made.set_receive_timeout(settings_.timeout);
    made.receive(bytes_of(handshake));
    made.set_receive_timeout(0);
    if (handshake.magic != protocol_magic || handshake.rank < 1) return false;
    if (handshake.size != size())
      fail(Fault::usage, "DELTASANE_SIZE: expected ", size(), " on every process, found ",
           handshake.size, " on rank ", handshake.rank);
    if (handshake.rank >= size()) return false;
    Connection& peer = peers_[size_t(handshake.rank) - 1];
    if (peer)
      fail(Fault::usage, "DELTASANE_RANK: expected a different one on every process, found ",
           handshake.rank, " twice");
    made.set_peer_name(name_of(handshake.rank));
    peer = std::move(made);
    return true;
  }

  void connect_to_root() {
    Connection made = connect_to(settings_.address, settings_.timeout);
    if (!made)
      fail(Fault::device, name_of(0), ": expected it at ", settings_.address, " within ",
           settings_.timeout, " s, found no process; start it with DELTASANE_RANK=0");
    made.set_peer_name(name_of(0));
    Handshake handshake{protocol_magic, rank(), size()};
    made.send(bytes_of(handshake));
    uint64_t answer = 0;
    made.receive(bytes_of(answer));
    if (answer != protocol_magic)
      fail(Fault::device, name_of(0), ": expected a process of this program at ", settings_.address,
           ", found another protocol");
    peers_.push_back(std::move(made));
  }

  void begin_call(Call call) {
    if (rank() != 0) return peers_[0].send(bytes_of(call));
    for (size_t i = 0; i < peers_.size(); ++i) {
      Call other{};
      peers_[i].receive(bytes_of(other));
      if (other != call)
        fail(Fault::device, name_of(int(i) + 1), ": expected call ", uint64_t(call.collective),
             " with ", call.bytes, " bytes as on rank 0, found call ", uint64_t(other.collective),
             " with ", other.bytes, " bytes; all processes of a job must make the same calls");
    }
  }

  // In blocks: no process sends more than rank 0 is about to receive.
  template <class T>
  void reduce(std::span<T> numbers) {
    constexpr size_t block = size_t{1} << 18;
    begin_call({Collective::all_reduce, numbers.size_bytes()});
    std::vector<T> received(rank() == 0 ? std::min(block, numbers.size()) : 0);
    for (size_t at = 0; at < numbers.size(); at += block) {
      const auto part = numbers.subspan(at, std::min(block, numbers.size() - at));
      const auto bytes = std::as_writable_bytes(part);
      if (rank() != 0) {
        peers_[0].send(bytes);
        peers_[0].receive(bytes);
        continue;
      }
      for (Connection& other : peers_) {
        other.receive(std::as_writable_bytes(std::span(received)).first(bytes.size()));
        for (size_t i = 0; i < part.size(); ++i) part[i] += received[i];
      }
      for (Connection& peer : peers_) peer.send(bytes);
    }
  }

  SocketGroupSettings settings_;
  std::vector<Connection> peers_;  // on rank 0 all others by rank, elsewhere rank 0 only
  std::vector<std::span<float>> started_;
};

}  // namespace

std::unique_ptr<Group> socket_group(const SocketGroupSettings& settings) {
  require(settings.size > 1 && settings.rank >= 0 && settings.rank < settings.size,
          "a rank is below the size");
  return std::make_unique<SocketGroup>(settings);
}

}  // namespace deltasane::comm
