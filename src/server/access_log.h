// One line of JSON on standard output for each request.
#ifndef SPRAT_SERVER_ACCESS_LOG_H_
#define SPRAT_SERVER_ACCESS_LOG_H_

#include "server/exchange.h"

namespace sprat::server {

// Writes asynchronously: if standard output cannot keep up, lines are dropped rather than requests
// held up. Neither texts nor keys are logged.
void LogAccess(const Exchange& exchange, const Response& response, SteadyClock::duration took);

// From here on a line that standard output does not take at once is dropped: before the log ends.
void EndAccessLog();

// The line, without its end.
std::string AccessLine(const Exchange& exchange, const Response& response,
                       SteadyClock::duration took, std::chrono::system_clock::time_point now);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_ACCESS_LOG_H_
