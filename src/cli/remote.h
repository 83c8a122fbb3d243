// Vectors as a running server makes them, by OpenAI's route.
#ifndef SPRAT_CLI_REMOTE_H_
#define SPRAT_CLI_REMOTE_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "cli/npy.h"
#include "sprat/engine.h"
#include "sprat/result.h"

namespace sprat::cli {

struct RemoteOptions {
  std::string url;           // of the server, or of its /v1 or /v1/embeddings
  std::string model;         // the name to ask for; "": the only one that /v1/models lists
  std::string api_key_file;  // its first line that is a key; "": none
  EmbedOptions embed;        // prompt, prompt_name and dimensions are passed on
};

// Appends the vectors of texts to a matrix. Errors: kIo, with what the server answered.
using FetchVectors = std::function<Result<void>(std::span<const std::string_view>, Matrix&)>;

// Asks the server which models it has. Errors: kInvalidArgument for the URL, or where a name is
// needed, listing those there are; kIo; kUnsupported in a build without the server.
Result<FetchVectors> OpenRemote(const RemoteOptions& options);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_REMOTE_H_
