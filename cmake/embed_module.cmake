# SPDX-License-Identifier: MIT
# cmake -DMODULE=ptx_dev -DBITCODE=module.bc -DOUT=module.cpp -P: the bitcode as the symbols by which Halide's library asks for
# its module of that name. A program that defines them is asked first.
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
