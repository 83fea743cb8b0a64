// A connection beyond the limits: nothing of it is parsed.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <memory>

#include "serve/http/http.h"

namespace deltasane::serve {

// Tells why and closes. For at most a second, what comes is read and dropped: a reset would take the
// reply away from the client. `place` is let go of with the connection.
void refuse_connection(boost::asio::generic::stream_protocol::socket socket, const Refusal& why,
                       std::shared_ptr<void> place);

}  // namespace deltasane::serve
