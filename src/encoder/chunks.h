// How a batch is cut into pieces that threads work on.
#ifndef SPRAT_ENCODER_CHUNKS_H_
#define SPRAT_ENCODER_CHUNKS_H_

#include <cstddef>
#include <span>
#include <vector>

namespace sprat {

// Whole sequences [first, end) of a batch, computed together.
struct Chunk {
  size_t first;
  size_t end;
};

struct ChunkPlan {
  std::vector<Chunk> chunks;  // in order, each sequence in exactly one
  size_t alone = 0;  // each of the first `alone` chunks is computed by one thread on its own, the
                     // others by all threads together
};

struct ChunkLimits {
  size_t threads;
  size_t tokens;  // in one chunk, unless a single sequence has more
};

// Cuts a batch (offsets as in TokenBatch) for `limits.threads` threads.
// A thread on its own waits for nobody, but all must be busy to the end: so the chunks are of
// nearly equal size, a multiple of the threads is done alone, and one more, where the texts are
// short enough to be cut so, is done together by whoever is ready, which evens out what held a
// thread up. A batch that is too small to go round is done together. Pure; reuses the memory of
// `plan`.
void PlanChunks(std::span<const size_t> offsets, const ChunkLimits& limits, ChunkPlan& plan);

}  // namespace sprat

#endif  // SPRAT_ENCODER_CHUNKS_H_
