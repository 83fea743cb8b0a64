#include "serve/http/refused_connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>

namespace deltasane::serve {
namespace {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

constexpr std::chrono::milliseconds most_time{1000};
constexpr size_t most_dropped = 1 << 20;

struct Refused : std::enable_shared_from_this<Refused> {
  Refused(Socket of, std::shared_ptr<void> with_place)
      : place(std::move(with_place)), socket(std::move(of)), end(socket.get_executor()) {}

  std::shared_ptr<void> place;
  Socket socket;
  asio::steady_timer end;
  char block[4096];
  size_t dropped = 0;

  void tell(const Refusal& why) {
    error_code ignored;
    const HttpReply reply = error_reply(why);
    const std::string text = reply_head(reply, length_line(reply), /*keeps_alive=*/false) + reply.body;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);  // new sockets have room for it
    socket.shutdown(Socket::shutdown_send, ignored);
    end.expires_after(most_time);
    end.async_wait([self = shared_from_this()](const error_code&) { self->close(); });
    drop();
  }
  void drop() {
    socket.async_read_some(asio::buffer(block),
                           [self = shared_from_this()](const error_code& error, size_t count) {
                             self->dropped += count;
                             if (error || self->dropped > most_dropped) return self->close();
                             self->drop();
                           });
  }
  void close() {
    error_code ignored;
    socket.close(ignored);
    end.cancel();
  }
};

}  // namespace

void refuse_connection(Socket socket, const Refusal& why, std::shared_ptr<void> place) {
  std::make_shared<Refused>(std::move(socket), std::move(place))->tell(why);
}

}  // namespace deltasane::serve
