# Installs BUILD into a fresh prefix below WORK, then configures, builds and runs this project
# against it. cmake -D BUILD=... -D WORK=... -D MODEL=... -D TYPE=... -D FLAGS=... -P test.cmake
file(REMOVE_RECURSE ${WORK})
set(run COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix
                OUTPUT_QUIET ${run})
execute_process(COMMAND ${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build
                        -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=${TYPE}
                        "-DCMAKE_CXX_FLAGS=${FLAGS}" ${run})
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build ${run})
execute_process(COMMAND ${WORK}/build/consumer ${MODEL} ${run})
