// Where clients come in: TCP and a Unix socket at the same time.
#ifndef SPRAT_SERVER_LISTENER_H_
#define SPRAT_SERVER_LISTENER_H_

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <memory>
#include <optional>
#include <span>

#include "server/connection.h"
#include "server/session.h"

namespace sprat::server {

using TcpAcceptor = asio::basic_socket_acceptor<asio::ip::tcp, Executor>;
using UnixAcceptor = asio::basic_socket_acceptor<asio::local::stream_protocol, Executor>;

// Each opens a socket that listens. Errors: kIo naming the address and the system's reason. A Unix
// socket that a dead server left behind is replaced; one that answers is not.
Result<TcpAcceptor> ListenTcp(Executor executor, const std::string& host, uint16_t port);
Result<UnixAcceptor> ListenUnix(Executor executor, const std::filesystem::path& path);

// Accepts until the acceptor is closed and hands each connection to the next of `threads`. Runs on
// the acceptor's executor. The acceptor must outlive it.
Task<void> Accept(TcpAcceptor& acceptor, std::span<const std::unique_ptr<NetworkThread>> threads,
                  Service& service, asio::ssl::context* tls);
Task<void> Accept(UnixAcceptor& acceptor, std::span<const std::unique_ptr<NetworkThread>> threads,
                  Service& service);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_LISTENER_H_
