// wgmma over bf16 as the n-gram kernels use it: for 104, 192 and 208 columns.
#ifndef SPRAT_GPU_NGRAM_WGMMA_CUH_
#define SPRAT_GPU_NGRAM_WGMMA_CUH_

#include <cstdint>

namespace sprat::gpu {

// The registers of the sums, as text and as operands of an asm statement.
#define SPRAT_SUMS_52                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, " \
  "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
  "%44, %45, %46, %47, %48, %49, %50, %51"
#define SPRAT_SUMS_96                                                        \
  SPRAT_SUMS_52                                                              \
  ", %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, " \
  "%66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "   \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "   \
  "%94, %95"
#define SPRAT_SUMS_104 \
  SPRAT_SUMS_96        \
  ", %96, %97, %98, %99, %100, %101, %102, %103"
#define SPRAT_OPERANDS_52(d)                                                                    \
  "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]), "+f"((d)[4]), "+f"((d)[5]),           \
      "+f"((d)[6]), "+f"((d)[7]), "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11]),     \
      "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15]), "+f"((d)[16]), "+f"((d)[17]), \
      "+f"((d)[18]), "+f"((d)[19]), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23]), \
      "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27]), "+f"((d)[28]), "+f"((d)[29]), \
      "+f"((d)[30]), "+f"((d)[31]), "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35]), \
      "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39]), "+f"((d)[40]), "+f"((d)[41]), \
      "+f"((d)[42]), "+f"((d)[43]), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47]), \
      "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51])
#define SPRAT_OPERANDS_96(d)                                                                       \
  SPRAT_OPERANDS_52(d), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55]), "+f"((d)[56]), \
      "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59]), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]),    \
      "+f"((d)[63]), "+f"((d)[64]), "+f"((d)[65]), "+f"((d)[66]), "+f"((d)[67]), "+f"((d)[68]),    \
      "+f"((d)[69]), "+f"((d)[70]), "+f"((d)[71]), "+f"((d)[72]), "+f"((d)[73]), "+f"((d)[74]),    \
      "+f"((d)[75]), "+f"((d)[76]), "+f"((d)[77]), "+f"((d)[78]), "+f"((d)[79]), "+f"((d)[80]),    \
      "+f"((d)[81]), "+f"((d)[82]), "+f"((d)[83]), "+f"((d)[84]), "+f"((d)[85]), "+f"((d)[86]),    \
      "+f"((d)[87]), "+f"((d)[88]), "+f"((d)[89]), "+f"((d)[90]), "+f"((d)[91]), "+f"((d)[92]),    \
      "+f"((d)[93]), "+f"((d)[94]), "+f"((d)[95])
#define SPRAT_OPERANDS_104(d)                                                       \
  SPRAT_OPERANDS_96(d), "+f"((d)[96]), "+f"((d)[97]), "+f"((d)[98]), "+f"((d)[99]), \
      "+f"((d)[100]), "+f"((d)[101]), "+f"((d)[102]), "+f"((d)[103])

// d += A . B^T over 16 columns, A of 64 rows, B of `columns` rows, both operands in shared memory
// (Operand, tile_tools.cuh); d lies as for Wgmma there.
#define SPRAT_WGMMA_SHARED(sums, columns, a, b)                                                \
  __device__ inline void WgmmaBf16(float(&d)[sums], uint64_t rows, uint64_t weights) {         \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns                                  \
                 "k16.f32.bf16.bf16 {" SPRAT_SUMS_##sums "}, %" #a ", %" #b ", 1, 1, 1, 0, 0;" \
                 : SPRAT_OPERANDS_##sums(d)                                                    \
                 : "l"(rows), "l"(weights));                                                   \
  }
SPRAT_WGMMA_SHARED(52, 104, 52, 53)
SPRAT_WGMMA_SHARED(96, 192, 96, 97)
SPRAT_WGMMA_SHARED(104, 208, 104, 105)

#undef SPRAT_WGMMA_SHARED
#undef SPRAT_SUMS_52
#undef SPRAT_SUMS_96
#undef SPRAT_SUMS_104
#undef SPRAT_OPERANDS_52
#undef SPRAT_OPERANDS_96
#undef SPRAT_OPERANDS_104

}  // namespace sprat::gpu

#endif  // SPRAT_GPU_NGRAM_WGMMA_CUH_
