# SPDX-License-Identifier: MIT
# cmake -DPROGRAM=file -DPAGE=file -P check_output.cmake: fails unless the program ends well and the page shows its
# standard output as a block.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE code)
file(READ ${PAGE} page)
string(FIND "${page}" "```\n${printed}```\n" at)
if(NOT code EQUAL 0 OR at EQUAL -1)
  message(FATAL_ERROR "exit code ${code}; ${PAGE} does not show:\n${printed}")
endif()
