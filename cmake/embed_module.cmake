# cmake -DMODULE=ptx_dev -DBITCODE=module.bc [-DSOURCES=a.ll,b.ll -DLLVM_AS=llvm-as] -DOUT=module.cpp -P: the bitcode, assembled of the
# sources where they are given, as the symbols by which Halide's library asks for its module of that name. A program that defines them
# is asked first.
if(SOURCES)
  string(REPLACE "," ";" sources "${SOURCES}")
  set(text "")
  foreach(source IN LISTS sources)
    file(READ ${source} part)
    string(APPEND text "${part}")
  endforeach()
  file(WRITE ${BITCODE}.ll "${text}")
  execute_process(COMMAND ${LLVM_AS} ${BITCODE}.ll -o ${BITCODE} COMMAND_ERROR_IS_FATAL ANY)
endif()
file(READ ${BITCODE} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
set(symbol halide_internal_initmod_${MODULE}_ll)
file(WRITE ${OUT} "extern \"C\" {
extern unsigned char ${symbol}[];
extern int ${symbol}_length;
unsigned char ${symbol}[] = {${bytes}0};
int ${symbol}_length = sizeof(${symbol}) - 1;
}
")
