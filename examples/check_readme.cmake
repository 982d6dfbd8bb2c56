# SPDX-License-Identifier: MIT
# cmake -DREADME=file -DEXAMPLE=file [-DPART=name] -P check_readme.cmake: fails unless README holds the example's text, as a
# block of C or C++. A part stands between the lines "// README: name" and "// README: end", and is shown without its
# indentation. The line that names the licence is not shown.
file(READ ${README} readme)
file(READ ${EXAMPLE} example)
string(REGEX REPLACE "^// SPDX-License-Identifier: [^\n]*\n" "" example "${example}")
if(PART)
  if(NOT example MATCHES "\n( *)// README: ${PART}\n(.*)\n *// README: end\n")
    message(FATAL_ERROR "${EXAMPLE} has no part ${PART}")
  endif()
  set(indentation "${CMAKE_MATCH_1}")
  string(REPLACE "\n${indentation}" "\n" example "\n${CMAKE_MATCH_2}\n")
  string(SUBSTRING "${example}" 1 -1 example)
endif()
set(language cpp)
if(EXAMPLE MATCHES "\\.c$")
  set(language c)
endif()
string(FIND "${readme}" "```${language}\n${example}```\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${README} does not hold this text of ${EXAMPLE} verbatim, between ```${language} and ```:\n${example}")
endif()
