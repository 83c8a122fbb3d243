// HTTP/1.1 on one connection: requests in, answers out, in order.
#ifndef SPRAT_SERVER_SESSION_H_
#define SPRAT_SERVER_SESSION_H_

#include <boost/asio/ssl/context.hpp>

#include "server/connection.h"

namespace sprat::server {

// Serves a connection until it ends. Runs on the network thread `thread`.
//   tls: nullptr for a plain connection.
//   refuse: there are too many connections: one request is answered 503, then it is closed.
Task<void> ServeConnection(NetworkThread& thread, Service& service, Socket socket,
                           asio::ssl::context* tls, bool refuse);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_SESSION_H_
