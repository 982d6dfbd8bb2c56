# SPDX-License-Identifier: MIT
# cmake -DMODULE=ptx_dev -DBITCODE=module.bc -DOUT=module.cpp -P: the bitcode under the symbols by which Halide's library looks
# up its module of that name. Definitions in the program come first.
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
