# cmake -DIN=device_module.bc -DOUT=device_module.cpp -P: the bitcode as the symbols by which Halide's library asks for its
# module for CUDA. A program that defines them is asked first.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "extern \"C\" {
extern unsigned char halide_internal_initmod_ptx_dev_ll[];
extern int halide_internal_initmod_ptx_dev_ll_length;
unsigned char halide_internal_initmod_ptx_dev_ll[] = {${bytes}0};
int halide_internal_initmod_ptx_dev_ll_length = sizeof(halide_internal_initmod_ptx_dev_ll) - 1;
}
")
