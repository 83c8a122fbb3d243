# CUDA, where it is wanted and found. Sets SPRAT_WITH_CUDA; without it the product is whole on the
# CPU and answers kDevice when a GPU is asked for.
set(SPRAT_CUDA AUTO CACHE STRING "Build the CUDA parts: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE SPRAT_CUDA PROPERTY STRINGS AUTO ON OFF)
set(SPRAT_CUDA_ARCHITECTURES "80;90a" CACHE STRING "GPU architectures to compile for")
set(SPRAT_CUDA_MINIMUM 12.8)
set(SPRAT_WITH_CUDA OFF)

if(NOT SPRAT_CUDA STREQUAL "OFF")
  if(NOT CMAKE_CUDA_COMPILER AND DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER $ENV{CUDACXX})
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(SPRAT_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
                 PATH_SUFFIXES bin)
    if(SPRAT_NVCC)
      set(CMAKE_CUDA_COMPILER ${SPRAT_NVCC})
    endif()
  endif()
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS SPRAT_CUDA_MINIMUM)
      set(reason "nvcc is ${CMAKE_CUDA_COMPILER_VERSION}, ${SPRAT_CUDA_MINIMUM} or later is needed")
    else()
      set(SPRAT_WITH_CUDA ON)
      find_package(CUDAToolkit ${SPRAT_CUDA_MINIMUM} REQUIRED)
    endif()
  else()
    set(reason "no nvcc in CUDACXX, CUDA_HOME, PATH or /usr/local/cuda")
  endif()
  if(NOT SPRAT_WITH_CUDA)
    if(SPRAT_CUDA STREQUAL "ON")
      message(FATAL_ERROR "SPRAT_CUDA is ON, but ${reason}")
    endif()
    message(STATUS "CUDA parts are left out: ${reason}")
  endif()
endif()

# CMake 3.25 does not know nvcc's flag for C++20; newer ones do.
if(SPRAT_WITH_CUDA AND NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

# sprat_cuda_target(TARGET): what every target with .cu files needs. The runtime is linked
# statically, so that one program runs with and without a driver. A register spill fails the build.
function(sprat_cuda_target target)
  set_target_properties(${target} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static
    CUDA_ARCHITECTURES "${SPRAT_CUDA_ARCHITECTURES}")
  target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=--warn-on-spills,--warning-as-error>"
    $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
  if(SPRAT_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
endfunction()
