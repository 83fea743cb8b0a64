// One client's connection: reads its requests one after another and writes their replies. All of it
// runs on the connection's strand; Exchange brings the calls of other threads there.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/http/http.h"
#include "serve/http/request_reader.h"

namespace deltasane::serve {

using Socket = boost::asio::generic::stream_protocol::socket;
class Connection;

// Connections for which other threads have left calls. However many they are, the threads of the
// sockets are asked once: a step of the engine has a piece of text for every client.
class Outbox {
 public:
  explicit Outbox(boost::asio::io_context& io) : io_(io) {}
  void add(std::shared_ptr<Connection> connection);

 private:
  boost::asio::io_context& io_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> waiting_;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `place` is what it holds of its server's limits: let go of when the connection is over, however it
  // ends. Replies may come after the server has ended: as long as one is pending, `sockets` is kept.
  Connection(Socket socket, std::string peer, HttpHandler& handler, const HttpLimits& limits,
             std::shared_ptr<void> place, std::weak_ptr<void> sockets, Outbox& outbox);
  ~Connection() { abandon_body(); }

  void begin();  // any thread; so is what follows
  void drain();  // closes it after the next reply
  void cut();    // closes it now
  bool is_busy() const { return is_busy_; }  // with a request, or the end of a reply

 private:
  friend class ConnectionExchange;
  enum class State { reading, replying, lingering, closed };
  using Code = boost::system::error_code;
  friend class Outbox;
  // From any thread, in their order.
  void post(std::function<void(Connection&)> call);
  void take_calls();

  void read();
  void read_ahead();
  void take_bytes(const Code& error, size_t count);
  void take_input();
  void dispatch();
  void refuse(const Refusal& refusal);
  void next_request();
  void limit_body();
  void resume_body();
  void abandon_body();

  void send_reply(uint64_t number, const HttpReply& reply);
  void begin_stream(uint64_t number, HttpReply head);
  void write_piece(uint64_t number, const std::string& piece);
  void end_stream(uint64_t number);
  void set_gone_call(uint64_t number, std::function<void()> call);
  void abandoned(uint64_t number);

  void send(std::string_view bytes);
  void write();
  void wait_to_write();
  void finish_reply();
  void linger();
  void gone();
  void close();

  void set_deadline(std::chrono::milliseconds time);
  void pass_deadline();
  void set_ping();

  Socket socket_;
  boost::asio::steady_timer deadline_, write_deadline_, ping_;
  std::string peer_;
  HttpHandler& handler_;
  const HttpLimits& limits_;
  std::shared_ptr<void> place_;
  std::weak_ptr<void> sockets_;
  Outbox& outbox_;
  std::mutex calls_mutex_;
  std::vector<std::function<void(Connection&)>> calls_;  // of other threads

  State state_ = State::reading;
  std::atomic<bool> is_busy_{false};
  std::optional<RequestReader> reader_;
  std::string block_;  // where the next bytes are read to
  std::string input_;  // read, not yet taken
  bool is_reading_ = false, is_watched_ = false, is_limited_ = false, is_draining_ = false;
  std::shared_ptr<BodyReader> body_reader_;  // of the request that is read
  bool is_paused_ = false;                   // it takes no more for now
  std::chrono::steady_clock::time_point body_end_{};
  size_t requests_ = 0, discarded_ = 0;

  uint64_t number_ = 0;  // of the request that is answered
  bool keeps_ = false, in_chunks_ = false, is_stream_ = false, is_complete_ = false;
  bool is_head_request_ = false;
  std::string request_id_;
  std::function<void()> gone_call_;
  std::string output_, sending_;  // waiting, and being written
  size_t sent_ = 0;
  bool is_writing_ = false, is_finishing_ = false;
  std::chrono::steady_clock::time_point last_sent_{};
};

}  // namespace deltasane::serve
