#include "comm/socket/socket_group.h"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/timing.h"
#include "comm/socket/connection.h"
#include "comm/socket/secret.h"

namespace deltasane::comm {
namespace {

constexpr uint64_t protocol_magic = 0x32707267656e6173;

// How a process joins. Each side draws a number, and shows by a tag of both that it knows the secret
// (which is empty where none is set): a recorded greeting is of no use to anyone.
struct Challenge {  // from rank 0, when somebody connects
  uint64_t magic;
  Nonce nonce;
};
struct Greeting {
  uint64_t magic;
  int32_t rank, size;
  Nonce nonce;
  Tag tag;
};
struct Answer {  // when all are there
  Tag tag;
};

template <class... Part>
Tag tag_of(const std::string& secret, std::string_view purpose, const Part&... part) {
  std::vector<std::byte> text(std::as_bytes(std::span(purpose)).begin(),
                              std::as_bytes(std::span(purpose)).end());
  const auto add = [&](std::span<const std::byte> bytes) {
    text.insert(text.end(), bytes.begin(), bytes.end());
  };
  (add(std::as_bytes(std::span(&part, 1))), ...);
  return hmac_sha256(secret, text);
}

Tag greeting_tag(const std::string& secret, const Nonce& root, const Greeting& greeting) {
  return tag_of(secret, "deltasane joins", root, greeting.nonce, greeting.rank, greeting.size);
}
Tag answer_tag(const std::string& secret, const Nonce& root, const Nonce& peer) {
  return tag_of(secret, "deltasane accepts", peer, root);
}

// Somebody who has connected and has yet to say who it is.
struct Stranger {
  Connection connection;
  Nonce nonce{};
  double until = 0;
  Greeting greeting{};
  size_t received = 0;
};
constexpr double greeting_seconds = 5;
constexpr size_t most_strangers = 2048;

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

  // Rank 0 waits for all others. Whoever else connects is ignored: it may be silent, close, or say
  // something else, and the others do not wait for it.
  void accept_peers() {
    Listener listener(settings_.address);
    peers_.resize(size_t(size()) - 1);
    std::vector<Nonce> nonces(peers_.size());  // of the peers
    std::vector<Nonce> own(peers_.size());     // that they were sent
    std::vector<Stranger> strangers;
    int refused = 0;
    const double until = seconds_now() + settings_.timeout;
    for (int missing = size() - 1; missing > 0;) {
      const double now = seconds_now();
      if (now >= until) fail_absent(refused);
      refused += int(std::erase_if(strangers, [&](const Stranger& s) { return now >= s.until; }));
      wait_for(listener, strangers, until - now);
      if (Connection made = listener.accept(0); made && strangers.size() < most_strangers)
        welcome(std::move(made), strangers);
      for (size_t i = strangers.size(); i-- > 0;) {
        Stranger& stranger = strangers[i];
        const auto rest = bytes_of(stranger.greeting).subspan(stranger.received);
        const std::optional<size_t> some = stranger.connection.receive_some(rest);
        stranger.received += some.value_or(0);
        if (some && stranger.received < sizeof stranger.greeting) continue;
        if (some && belongs_to_job(stranger)) {
          const auto rank = size_t(stranger.greeting.rank) - 1;
          nonces[rank] = stranger.greeting.nonce, own[rank] = stranger.nonce;
          stranger.connection.set_peer_name(name_of(stranger.greeting.rank));
          peers_[rank] = std::move(stranger.connection);
          --missing;
        } else {
          ++refused;
        }
        strangers.erase(strangers.begin() + std::ptrdiff_t(i));
      }
    }
    for (size_t i = 0; i < peers_.size(); ++i) {
      Answer answer{answer_tag(settings_.secret, own[i], nonces[i])};
      peers_[i].send(bytes_of(answer));
    }
  }

  [[noreturn]] void fail_absent(int refused) const {
    const auto absent = std::ranges::find_if(peers_, [](const Connection& one) { return !one; });
    fail(Fault::device, name_of(int(absent - peers_.begin()) + 1), ": expected it at ",
         settings_.address, " within ", settings_.timeout, " s, found no process",
         refused ? cat(" (", refused,
                       " connection(s) of others, or with another secret, were "
                       "refused)")
                 : std::string(),
         "; start all processes with the same DELTASANE_SIZE, DELTASANE_ADDRESS and secret");
  }

  static void wait_for(const Listener& listener, const std::vector<Stranger>& strangers,
                       double seconds) {
    std::vector<pollfd> waiting{{listener.socket(), POLLIN, 0}};
    for (const Stranger& one : strangers) waiting.push_back({one.connection.socket(), POLLIN, 0});
    // At least this often, those that were silent for too long are let go.
    ::poll(waiting.data(), waiting.size(), int(std::ceil(std::min(seconds, 0.5) * 1e3)));
  }

  static void welcome(Connection made, std::vector<Stranger>& strangers) {
    Challenge challenge{protocol_magic, random_nonce()};
    if (!made.try_send(bytes_of(challenge))) return;
    strangers.push_back({std::move(made), challenge.nonce, seconds_now() + greeting_seconds});
  }

  bool belongs_to_job(const Stranger& stranger) const {
    const Greeting& greeting = stranger.greeting;
    if (greeting.magic != protocol_magic ||
        !equal_in_constant_time(greeting.tag,
                                greeting_tag(settings_.secret, stranger.nonce, greeting)))
      return false;
    if (greeting.size != size())
      fail(Fault::usage, "DELTASANE_SIZE: expected ", size(), " on every process, found ",
           greeting.size, " on rank ", greeting.rank);
    if (greeting.rank < 1 || greeting.rank >= size()) return false;
    if (peers_[size_t(greeting.rank) - 1])
      fail(Fault::usage, "DELTASANE_RANK: expected a different one on every process, found ",
           greeting.rank, " twice");
    return true;
  }

  void connect_to_root() {
    Connection made = connect_to(settings_.address, settings_.timeout);
    if (!made)
      fail(Fault::device, name_of(0), ": expected it at ", settings_.address, " within ",
           settings_.timeout, " s, found no process; start it with DELTASANE_RANK=0");
    made.set_peer_name(name_of(0));
    Challenge challenge{};
    made.set_receive_timeout(settings_.timeout);
    made.receive(bytes_of(challenge));
    if (challenge.magic != protocol_magic)
      fail(Fault::device, name_of(0), ": expected a process of this program and version at ",
           settings_.address, ", found another protocol");
    Greeting greeting{protocol_magic, rank(), size(), random_nonce(), {}};
    greeting.tag = greeting_tag(settings_.secret, challenge.nonce, greeting);
    made.send(bytes_of(greeting));
    Answer answer{};
    made.set_receive_timeout(2 * settings_.timeout);  // rank 0 waits for others that long
    made.receive(bytes_of(answer));
    if (!equal_in_constant_time(answer.tag,
                                answer_tag(settings_.secret, challenge.nonce, greeting.nonce)))
      fail(Fault::device, name_of(0),
           ": expected it to know the secret of this job, found that it "
           "does not");
    made.set_receive_timeout(0);
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
  if (settings.secret.empty() && !stays_on_this_machine(settings.address))
    fail(Fault::usage, "DELTASANE_SECRET or DELTASANE_SECRET_FILE: expected a secret, because ",
         settings.address,
         " can be reached from other machines, found none; set the same on every "
         "process, such as 32 random characters");
  return std::make_unique<SocketGroup>(settings);
}

}  // namespace deltasane::comm
