# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=file -DPICTURE=file.svg -P check_picture.cmake: fails unless the program writes an SVG picture with cells.
file(REMOVE ${PICTURE})
execute_process(COMMAND ${PROGRAM} ${PICTURE} COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PICTURE} picture)
if(NOT picture MATCHES "^<\\?xml.*class=\"cell\".*</svg>\n$")
  message(FATAL_ERROR "${PICTURE} holds no picture of weights")
endif()
