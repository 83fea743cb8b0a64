// One client's connection: reads its requests one after another and writes their replies. All of it
// runs on the connection's strand; Exchange brings the calls of other threads there.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "serve/http/http.h"
#include "serve/http/request_reader.h"

namespace deltasane::serve {

using Socket = boost::asio::generic::stream_protocol::socket;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `closed` is called once, when the connection is over. Replies may come after the server has
  // ended: as long as one is pending, `sockets` is kept.
  Connection(Socket socket, std::string peer, HttpHandler& handler, const HttpLimits& limits,
             std::function<void(Connection*)> closed, std::weak_ptr<void> sockets);
  ~Connection();

  void begin();  // any thread; so is what follows
  void drain();  // closes it after the current reply, or now
  void cut();    // closes it now

 private:
  friend class ConnectionExchange;
  enum class State { reading, replying, lingering, closed };
  using Code = boost::system::error_code;
  template <class Call>
  void post(Call call);

  void read();
  void take_bytes(const Code& error, size_t count);
  void take_input();
  void dispatch();
  void refuse(const Refusal& refusal);
  void next_request();
  void limit_body();
  void resume_body();
  void abandon_body();

  void send_reply(uint64_t number, HttpReply reply);
  void begin_stream(uint64_t number, HttpReply head);
  void write_piece(uint64_t number, const std::string& piece);
  void end_stream(uint64_t number);
  void set_gone_call(uint64_t number, std::function<void()> call);
  void abandoned(uint64_t number);

  std::string head_of(const HttpReply& reply, std::string_view framing) const;
  void send(std::string_view bytes);
  void write();
  void take_written(const Code& error, size_t count);
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
  std::function<void(Connection*)> closed_;
  std::weak_ptr<void> sockets_;

  State state_ = State::reading;
  std::optional<RequestReader> reader_;
  std::string block_;  // where the next bytes are read to
  std::string input_;  // read, not yet taken
  bool is_reading_ = false, is_limited_ = false, is_draining_ = false;
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
  bool is_writing_ = false;
  std::chrono::steady_clock::time_point last_sent_{};
};

}  // namespace deltasane::serve
