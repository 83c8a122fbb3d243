// The engine: a model directory opened once, texts in, vectors out. Standard library only.
#ifndef SPRAT_ENGINE_H_
#define SPRAT_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sprat/result.h"
#include "sprat/submit.h"

namespace sprat {

// A batch that the CPU answered because the GPU was lost.
struct Fallback {
  size_t texts = 0;
  bool first = false;    // the batch that met the loss
  std::string_view why;  // the GPU's error
};

// How a model is opened. What is left empty is what the model's own files say.
struct EngineOptions {
  size_t threads = 0;  // compute threads; 0: CPU affinity and cgroup quota decide
  std::optional<size_t> max_length = {};    // tokens a text, special ones included; at most the
                                            // model's position table
  std::optional<std::string> pooling = {};  // "cls", "mean", "max", "mean_sqrt_len",
                                            // "weightedmean", "lasttoken"
  bool parse_special_tokens = true;  // "[SEP]" in a text is the special token, as in the reference
  bool check_weights = false;        // refuse weights that hold NaN or infinity
  BatchOptions batch = {};           // how requests of Submit are joined
  // Static models: "model2vec" (default) drops unknown tokens and cuts long texts as it does; "st"
  // drops none and cuts where tokenizer.json says, as sentence-transformers' StaticEmbedding.
  std::optional<std::string> static_semantics = {};
  // "cpu", "cuda" (CUDA's first device), "cuda:N", or "auto", which is the CPU: a GPU computes in
  // f16, so that its vectors differ in the last digits, and is used only where it is asked for by
  // name.
  std::string device = "auto";
  // What a GPU that is lost means. Not set: calls fail with kDevice. Set: the CPU answers instead,
  // this batch and all later ones, and each is reported, because its vectors differ in the last
  // digits. Called from the thread that computes; must not call the engine.
  std::function<void(const Fallback&)> on_fallback = nullptr;
};

// How one call's texts become vectors.
struct EmbedOptions {
  std::optional<std::string> prompt_name = {};  // of EngineInfo::prompts: its text is prepended
  std::optional<std::string> prompt = {};       // a text to prepend as it is; excludes prompt_name
  std::optional<bool> normalize = {};     // default: true; static models: as the model's files say
  std::optional<size_t> dimensions = {};  // keep the first d values, then normalise again
  bool truncate = true;                   // false: a text over the maximum length is kTooLong
};

// Rows of vectors in the order of the texts.
struct Embeddings {
  std::vector<float> values;  // rows x dimensions, row-major
  size_t dimensions = 0;
  std::vector<uint32_t> tokens;    // a row: ids that the model saw, special ones included
  std::vector<uint8_t> truncated;  // a row: 1 if part of the text was cut off

  size_t rows() const { return tokens.size(); }
  std::span<const float> Row(size_t i) const {
    return {values.data() + i * dimensions, dimensions};
  }
};

// Ids of one text as the model would see them.
struct Tokens {
  std::vector<uint32_t> ids;
  std::vector<std::string> texts;  // each id as written in the vocabulary
  bool truncated = false;
};

// What an opened model is.
struct EngineInfo {
  std::string family;        // "encoder", "static"
  std::string architecture;  // "bert", "model2vec"
  std::filesystem::path directory;
  size_t layers = 0, hidden = 0, heads = 0, ffn = 0;  // L, H, A, F; 0 where the family has none
  size_t vocabulary = 0;
  size_t dimensions = 0;
  size_t parameters = 0;    // weights that are used
  size_t weight_bytes = 0;  // in memory
  std::string pooling;
  bool normalizes = false;    // what the model's files say; EmbedOptions::normalize decides a call
  size_t max_length = 0;      // tokens a text, special ones included; 0: no limit
  size_t position_limit = 0;  // the largest max_length that could be asked for; 0: any
  std::map<std::string, std::string> prompts;
  std::optional<std::string> default_prompt_name;
  std::string weights_dtype;  // as stored: "F32", "F16", "BF16", "I8"
  std::string arithmetic;     // the arithmetic tag: "cpu-f32", "gpu-batch-f16"
  std::string kernels;        // the chosen table: "scalar", "avx2", "avx512"; "graph" on a GPU
  size_t threads = 0;         // compute threads; 0 on a GPU
  std::string device;         // "cpu", "cuda:0"
  std::string device_name;    // "NVIDIA H200, compute capability 9.0"; empty for the CPU
  std::vector<std::string> warnings;  // what was assumed because a file was absent
};

// Where the time of one text goes, in microseconds. What happens inside another stage is 0 here.
struct QueryStages {
  double tokenize = 0;
  double copy_in = 0;   // ids to where the device reads them
  double enqueue = 0;   // until the call that launches the work has returned
  double forward = 0;   // the model. A GPU's: first kernel to last
  double pool = 0;      // pooling and normalising, on a GPU; on a CPU they are part of forward
  double wake = 0;      // from the end of the work until the host has noticed
  double copy_out = 0;  // the vector to the caller

  double total() const { return tokenize + copy_in + enqueue + forward + pool + wake + copy_out; }
};

// A model and everything that runs it. Any thread may call any method at any time; calls that
// compute take turns. Movable.
class Engine {
 public:
  // Opens the model in `directory`. Errors name the file and the fault.
  static Result<Engine> Open(const std::filesystem::path& directory,
                             const EngineOptions& options = {});

  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // The vectors of `texts` (UTF-8), any number of them, in their order; memory beyond the result is
  // bounded whatever their number. The same text has the same bits in every call.
  // Errors: kInvalidArgument (not UTF-8, naming the text's index and the byte; an unknown prompt;
  // dimensions out of range), kTooLong. After an error there are no vectors at all.
  Result<Embeddings> Embed(std::span<const std::string_view> texts,
                           const EmbedOptions& options = {}) const;

  // The vector of one text: the shortest way for a search box.
  Result<Embeddings> EmbedOne(std::string_view text, const EmbedOptions& options = {}) const;

  // As Embed, into `out`, whose memory is reused: after the first call of a given size nothing is
  // allocated. After an error `out` is empty.
  Result<void> EmbedInto(std::span<const std::string_view> texts, const EmbedOptions& options,
                         Embeddings& out) const;

  // The vectors of token ids given as they are (nothing is added): `offsets` has one entry more
  // than there are sequences. For callers that tokenize elsewhere.
  Result<Embeddings> EmbedTokens(std::span<const uint32_t> ids, std::span<const size_t> offsets,
                                 const EmbedOptions& options = {}) const;

  // Takes `calls` calls of EmbedOne apart. On a GPU `forward` and `pool` are one number for all of
  // them, means of many runs in a row by the device's own clock, and `wake` what is left of the
  // wait.
  // Errors: as EmbedOne.
  Result<std::vector<QueryStages>> Attribute(std::string_view text, size_t calls,
                                             const EmbedOptions& options = {}) const;

  // The vector of each token of texts given as EmbedTokens takes them: what pooling would start
  // from, not normalised. ids.size() rows of info().dimensions values; the device is held until all
  // are computed. For a static model: the token's row times its weight.
  // Errors: kInvalidArgument (an id or a length out of range, naming the text's index);
  // kUnsupported on a GPU, which keeps no vectors of tokens.
  Result<std::vector<float>> EmbedEachToken(std::span<const uint32_t> ids,
                                            std::span<const size_t> offsets) const;

  // What Embed would feed the model. `max_length`: as EngineOptions, but may exceed the model's
  // limit here; 0 means no limit.
  Result<Tokens> Tokenize(std::string_view text, const EmbedOptions& options = {},
                          std::optional<size_t> max_length = {}) const;

  // The text that token ids make, as the decoder of the model's tokenizer says. Ids that stand for
  // no token are left out. Errors: kUnsupported naming a decoder that is not known here.
  Result<std::string> Decode(std::span<const uint32_t> ids, bool skip_special_tokens = true) const;

  // The same as Embed and EmbedTokens for callers that do not wait: tokenizes, queues, returns.
  // Requests of one text that wait together run together; an array runs in chunks of
  // BatchOptions::max_tokens, so a queue holds up nobody for long. `callback` receives the vectors
  // or the error, exactly once: also kOverloaded if the queue is full, and kCancelled. An engine
  // that is destroyed answers what it has accepted first.
  Ticket Submit(std::span<const std::string_view> texts, const EmbedOptions& options,
                EmbedCallback callback) const;
  Ticket Submit(std::string_view text, const EmbedOptions& options, EmbedCallback callback) const;
  Ticket SubmitTokens(std::span<const uint32_t> ids, std::span<const size_t> offsets,
                      const EmbedOptions& options, EmbedCallback callback) const;

  // Withdraws a request: if it has not been answered yet, its callback gets kCancelled before this
  // returns. A request that waits leaves the queue; one in a running batch lets the batch run on
  // for the others.
  void Cancel(const Ticket& ticket) const;

  // What was submitted and has not started.
  QueueDepth queued() const;

  const EngineInfo& info() const;

  // The model fingerprint, 64 hexadecimal digits: SHA-256 of all that decides a text's vector apart
  // from the arithmetic: the values of the tensors used, the tokenizer as it behaves, pooling,
  // prompts, maximum length (docs/architecture.md). Computed on the first call, which reads all
  // weights. Errors: kIo.
  Result<std::string> Fingerprint() const;

 private:
  class Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The version of the library, "major.minor.patch".
std::string_view Version();

// The names of the kernel tables that this machine can run, best first. SPRAT_FORCE_ISA names one.
std::vector<std::string> AvailableKernels();

}  // namespace sprat

#endif  // SPRAT_ENGINE_H_
