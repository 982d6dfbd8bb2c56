# cmake -DREADME=file -DEXAMPLE=file -P check_readme.cmake: fails unless README holds the example's text, as a C++ block.
file(READ ${README} readme)
file(READ ${EXAMPLE} example)
string(FIND "${readme}" "```cpp\n${example}```\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${README} does not hold the text of ${EXAMPLE} verbatim: copy it between ```cpp and ```")
endif()
