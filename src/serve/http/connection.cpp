#include "serve/http/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>

namespace deltasane::serve {
namespace {

namespace asio = boost::asio;
using std::chrono::steady_clock;

constexpr size_t block_bytes = 16 << 10;
constexpr size_t most_input = 64 << 10;  // read ahead of a reply, or without progress
constexpr size_t most_discarded = size_t{64} << 20;  // after a refusal, so that its reply arrives
constexpr std::chrono::milliseconds linger_time{1000};

std::string chunk_of(std::string_view bytes) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof digits, bytes.size(), 16).ptr;
  return cat(std::string_view(digits, size_t(end - digits)), "\r\n", bytes, "\r\n");
}

}  // namespace

// What routes hold of one request. One that is dropped without a reply closes the connection.
class ConnectionExchange final : public Exchange {
 public:
  ConnectionExchange(std::shared_ptr<void> sockets, std::shared_ptr<Connection> connection,
                     uint64_t number)
      : sockets_(std::move(sockets)), connection_(std::move(connection)), number_(number) {}
  ~ConnectionExchange() override {
    connection_->post([n = number_](Connection& to) { to.abandoned(n); });
  }
  void reply(HttpReply reply) override {
    connection_->post(
        [n = number_, reply = std::move(reply)](Connection& to) { to.send_reply(n, reply); });
  }
  void begin_stream(HttpReply head) override {
    connection_->post(
        [n = number_, head = std::move(head)](Connection& to) { to.begin_stream(n, head); });
  }
  void write(std::string piece) override {
    connection_->post(
        [n = number_, piece = std::move(piece)](Connection& to) { to.write_piece(n, piece); });
  }
  void end_stream() override {
    connection_->post([n = number_](Connection& to) { to.end_stream(n); });
  }
  void on_gone(std::function<void()> call) override {
    connection_->post(
        [n = number_, call = std::move(call)](Connection& to) { to.set_gone_call(n, call); });
  }

 private:
  std::shared_ptr<void> sockets_;  // ends after the connection
  std::shared_ptr<Connection> connection_;
  uint64_t number_;
};

Connection::Connection(Socket socket, std::string peer, HttpHandler& handler,
                       const HttpLimits& limits, std::shared_ptr<void> place,
                       std::weak_ptr<void> sockets, Outbox& outbox)
    : socket_(std::move(socket)),
      deadline_(socket_.get_executor()),
      write_deadline_(socket_.get_executor()),
      ping_(socket_.get_executor()),
      peer_(std::move(peer)),
      handler_(handler),
      limits_(limits),
      place_(std::move(place)),
      sockets_(std::move(sockets)),
      outbox_(outbox) {
  Code ignored;
  socket_.non_blocking(true, ignored);
}

void Outbox::add(std::shared_ptr<Connection> connection) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(connection));
    if (waiting_.size() > 1) return;
  }
  asio::post(io_, [this] {
    std::vector<std::shared_ptr<Connection>> all;
    {
      const std::lock_guard lock(mutex_);
      all.swap(waiting_);
    }
    for (std::shared_ptr<Connection>& one : all) {
      const auto executor = one->socket_.get_executor();
      asio::post(executor, [one = std::move(one)] { one->take_calls(); });
    }
  });
}

void Connection::post(std::function<void(Connection&)> call) {
  {
    const std::lock_guard lock(calls_mutex_);
    calls_.push_back(std::move(call));
    if (calls_.size() > 1) return;
  }
  outbox_.add(shared_from_this());
}

void Connection::take_calls() {
  std::vector<std::function<void(Connection&)>> calls;
  {
    const std::lock_guard lock(calls_mutex_);
    calls.swap(calls_);
  }
  for (const auto& call : calls) call(*this);
}

void Connection::begin() {
  post([](Connection& to) { to.next_request(); });
}

void Connection::drain() {
  post([](Connection& to) { to.is_draining_ = true; });
}

void Connection::cut() {
  post([](Connection& to) { to.gone(), to.close(); });
}

// Reading.

void Connection::next_request() {
  if (state_ == State::closed) return;
  if (requests_ >= limits_.requests_of_connection) return close();
  state_ = State::reading;
  is_busy_ = false;
  reader_.emplace(limits_);
  is_limited_ = false;
  set_deadline(limits_.idle_time);
  take_input();
}

void Connection::read() {
  if (is_reading_ || state_ == State::closed) return;
  is_reading_ = true;
  block_.resize(block_bytes);
  socket_.async_read_some(asio::buffer(block_),
                          [self = shared_from_this()](const Code& error, size_t count) {
                            self->take_bytes(error, count);
                          });
}

void Connection::take_bytes(const Code& error, size_t count) {
  is_reading_ = false;
  if (state_ == State::closed) return;
  if (error) {
    gone();
    return close();
  }
  if (state_ == State::lingering) {
    discarded_ += count;
    if (discarded_ > most_discarded) return close();
    return read();
  }
  input_.append(block_, 0, count);
  if (state_ == State::reading) return take_input();
  read_ahead();
}

// While nobody wants bytes. A read or a wait for an error is always pending: it keeps the connection
// alive, and sees that the client goes away. A client's FIN comes behind the bytes that it has sent, so
// much of a body is read ahead.
void Connection::read_ahead() {
  if (input_.size() < (is_paused_ ? limits_.body_bytes : most_input)) return read();
  if (std::exchange(is_watched_, true)) return;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const Code&) {
    self->is_watched_ = false;
    if (self->state_ == State::closed) return;
    self->gone();
    self->close();
  });
}

void Connection::take_input() {
  try {
    while (!input_.empty() && !reader_->is_done() && !is_paused_) {
      const bool had_begun = reader_->has_begun();
      const size_t used = reader_->feed(input_);
      input_.erase(0, used);
      if (!had_begun && reader_->has_begun()) is_busy_ = true, set_deadline(limits_.head_time);
      if (reader_->has_head() && !is_limited_) {
        is_limited_ = true;
        keeps_ = reader_->keeps_alive();
        limit_body();
        body_end_ = steady_clock::now() + limits_.body_time;
        if (reader_->expects_continue() && input_.empty()) send("HTTP/1.1 100 Continue\r\n\r\n");
      } else if (used == 0) {
        if (input_.size() > most_input)
          throw Refusal(400, "bad_request", "request: expected less at a time");
        break;
      }
      if (!body_reader_) continue;
      if (std::string piece = reader_->take_body_piece(); !piece.empty())
        is_paused_ = !body_reader_->take(std::move(piece));
    }
  } catch (const Refusal& refusal) {
    return refuse(refusal);
  }
  if (reader_->is_done()) return dispatch();
  if (is_paused_) {  // it is not the client that is slow
    deadline_.cancel();
    return read_ahead();
  }
  if (body_reader_)
    set_deadline(limits_.block_time);
  else if (is_limited_)
    set_deadline(std::min(limits_.block_time, std::chrono::duration_cast<std::chrono::milliseconds>(
                                                  body_end_ - steady_clock::now())));
  read();
}

void Connection::limit_body() {
  const size_t most = handler_.body_limit(reader_->request());
  body_reader_ = handler_.begin_body(
      reader_->request(), [connection = weak_from_this(), sockets = sockets_] {
        const auto open = sockets.lock();
        if (const auto self = connection.lock(); open && self)
          self->post([](Connection& to) { to.resume_body(); });
      });
  reader_->set_body_limit(body_reader_ ? UINT64_MAX : most);
}

void Connection::resume_body() {
  if (state_ == State::reading && std::exchange(is_paused_, false)) take_input();
}

void Connection::abandon_body() {
  if (const auto reader = std::exchange(body_reader_, nullptr)) reader->abandon();
  is_paused_ = false;
}

void Connection::refuse(const Refusal& refusal) {
  if (state_ != State::reading) return;
  abandon_body();
  state_ = State::replying;
  ++number_;
  keeps_ = is_stream_ = is_complete_ = is_head_request_ = false;
  request_id_.clear();
  send_reply(number_, error_reply(refusal));
}

void Connection::dispatch() {
  deadline_.cancel();
  state_ = State::replying;
  ++number_, ++requests_;
  HttpRequest request = reader_->take_request();
  keeps_ = reader_->keeps_alive() && !is_draining_ && requests_ < limits_.requests_of_connection;
  in_chunks_ = reader_->is_http_1_1();
  is_stream_ = is_complete_ = false;
  is_head_request_ = request.method == "HEAD";
  const std::string_view id = request.header("x-request-id");
  request_id_ = is_plain_name(id) ? id : std::string_view();
  request.peer = peer_;
  request.body_reader = std::exchange(body_reader_, nullptr);
  is_paused_ = false;
  handler_.handle(std::move(request),
                  std::make_shared<ConnectionExchange>(sockets_.lock(), shared_from_this(), number_));
  read_ahead();
}

// Replies.

void Connection::send_reply(uint64_t number, const HttpReply& reply) {
  if (number != number_ || state_ != State::replying || is_stream_ || is_complete_) return;
  const std::string head = reply_head(reply, length_line(reply), keeps_, request_id_);
  is_complete_ = true;
  gone_call_ = nullptr;
  send(is_head_request_ ? head : head + reply.body);
}

void Connection::begin_stream(uint64_t number, HttpReply head) {
  if (number != number_ || state_ != State::replying || is_stream_ || is_complete_) return;
  is_stream_ = true;
  is_complete_ = is_head_request_;
  if (!in_chunks_) keeps_ = false;  // HTTP/1.0: the end of the connection is the end of the reply
  head.headers.emplace_back("X-Accel-Buffering", "no");
  send(reply_head(head, in_chunks_ ? "Transfer-Encoding: chunked\r\n" : "", keeps_, request_id_));
  if (!is_complete_) return set_ping();
  gone();  // nobody wants the rest
}

void Connection::write_piece(uint64_t number, const std::string& piece) {
  if (number != number_ || state_ != State::replying || !is_stream_ || is_complete_ ||
      piece.empty())
    return;
  if (output_.size() + sending_.size() - sent_ + piece.size() > limits_.unread_bytes) {
    gone();  // it does not read
    return close();
  }
  send(in_chunks_ ? chunk_of(piece) : piece);
}

void Connection::end_stream(uint64_t number) {
  if (number != number_ || state_ != State::replying || !is_stream_ || is_complete_) return;
  is_complete_ = true;
  gone_call_ = nullptr;
  ping_.cancel();
  send(in_chunks_ ? "0\r\n\r\n" : "");
}

void Connection::set_gone_call(uint64_t number, std::function<void()> call) {
  const bool is_current = number == number_ && state_ == State::replying;
  if (is_current && !is_complete_)
    gone_call_ = std::move(call);
  else if (!is_current || (is_head_request_ && is_stream_))
    call();
}

void Connection::abandoned(uint64_t number) {
  if (number != number_ || state_ != State::replying || is_complete_) return;
  if (is_stream_) return close();
  send_reply(number, error_reply(Refusal(500, "no_reply", "the server has no reply")));
}

// Writing.

void Connection::send(std::string_view bytes) {
  output_ += bytes;
  last_sent_ = steady_clock::now();
  if (!is_writing_) write();
}

// As much as the client takes now; the rest when it takes more.
void Connection::write() {
  while (state_ != State::closed) {
    if (sent_ == sending_.size()) {
      sending_.swap(output_);
      output_.clear();
      sent_ = 0;
    }
    if (sending_.empty()) break;
    Code error;
    sent_ += socket_.write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_), error);
    if (error == asio::error::would_block || error == asio::error::try_again) return wait_to_write();
    if (error) {
      gone();
      return close();
    }
  }
  if (is_complete_ && state_ == State::replying && !std::exchange(is_finishing_, true))
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      self->is_finishing_ = false;
      if (self->is_complete_ && self->state_ == State::replying) self->finish_reply();
    });
}

void Connection::wait_to_write() {
  is_writing_ = true;
  write_deadline_.expires_after(limits_.block_time);
  write_deadline_.async_wait([self = shared_from_this()](const Code& error) {
    if (!error && self->is_writing_ && self->write_deadline_.expiry() <= steady_clock::now()) {
      self->gone();
      self->close();
    }
  });
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const Code& error) {
    self->is_writing_ = false;
    if (self->state_ == State::closed) return;
    self->write_deadline_.cancel();
    if (!error) return self->write();
    self->gone();
    self->close();
  });
}

void Connection::finish_reply() {
  ping_.cancel();
  if (!keeps_) return linger();
  next_request();
}

// The client may still be sending: a reset would take the reply away from it.
void Connection::linger() {
  state_ = State::lingering;
  Code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  set_deadline(linger_time);
  read();
}

void Connection::gone() {
  if (const auto call = std::exchange(gone_call_, nullptr)) call();
}

void Connection::close() {
  if (state_ == State::closed) return;
  state_ = State::closed;
  abandon_body();
  ++number_;
  Code ignored;
  socket_.close(ignored);
  deadline_.cancel();
  write_deadline_.cancel();
  ping_.cancel();
  place_.reset();
}

// Times.

void Connection::set_deadline(std::chrono::milliseconds time) {
  deadline_.expires_after(std::max(time, std::chrono::milliseconds(0)));
  deadline_.async_wait([self = shared_from_this()](const Code& error) {
    if (!error && self->deadline_.expiry() <= steady_clock::now()) self->pass_deadline();
  });
}

void Connection::pass_deadline() {
  if (state_ == State::replying || state_ == State::closed) return;
  if (state_ == State::reading && reader_->has_begun())
    return refuse(Refusal(408, "timeout", "request: expected the rest of it, found nothing in time"));
  close();
}

void Connection::set_ping() {
  ping_.expires_after(limits_.ping_time);
  ping_.async_wait([self = shared_from_this(), number = number_](const Code& error) {
    if (error || number != self->number_ || self->is_complete_) return;
    if (steady_clock::now() - self->last_sent_ >= self->limits_.ping_time)
      self->write_piece(number, ": ping\n\n");
    self->set_ping();
  });
}

}  // namespace deltasane::serve
