// Activations written to files, to find where two implementations part.
#ifndef SPRAT_ENCODER_ACTIVATION_DUMP_H_
#define SPRAT_ENCODER_ACTIVATION_DUMP_H_

#include <cstddef>
#include <filesystem>
#include <optional>

#include "base/matrix_view.h"
#include "sprat/result.h"

namespace sprat {

// On if the environment variable SPRAT_DUMP_DIR named an existing directory when it was made. Each
// call of Embed is numbered from 0; for each chunk, named by its first sequence, the output of the
// embeddings and of each layer, (T, H) f32, goes to
//   call0000_sequence0000_embeddings.npy, call0000_sequence0000_layer00.npy, ...
// Threads: one at a time. A file that cannot be written is reported by TakeError; the forward pass
// goes on.
class ActivationDump {
 public:
  ActivationDump();

  bool on() const { return !directory_.empty(); }
  void Begin(size_t first_sequence, MatrixView<const float> embeddings);
  void Layer(MatrixView<const float> x);

  // Ends the call: the first error since the last time.
  Result<void> TakeError();

 private:
  void Write(const char* what, MatrixView<const float> x);

  std::filesystem::path directory_;
  size_t call_ = 0;
  size_t sequence_ = 0;
  size_t layer_ = 0;
  std::optional<Error> error_;
};

// Writes `x` as a NumPy file, version 1.0, '<f4', C order. Errors: kIo naming the file.
// Format: numpy.lib.format.
Result<void> WriteNpy(const std::filesystem::path& path, MatrixView<const float> x);

}  // namespace sprat

#endif  // SPRAT_ENCODER_ACTIVATION_DUMP_H_
